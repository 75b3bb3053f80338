use highwater_core::{CommitError, EngineError, InvalidJson, InvalidKey, InvalidName, ViewWriteError};
use std::error::Error;
use std::fmt;

use crate::schema::DecodeError;
use crate::tagged::TagError;

/// What a failure means for the work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// It may go better next time: tried again after a pause that grows.
    Transient,
    /// It will never go better: a message is parked at once. A processor's batch is tried again all the same, until
    /// somebody mends what is wrong: passing over a change is not for the engine to decide.
    Permanent,
    /// A newer program is needed: the work waits for it, and is never parked.
    Newer,
    /// Going on would do harm (corruption, a full disk, a lost store): nothing is acknowledged and the role stops.
    Fatal,
}

/// A failure of a handler, with what it means.
///
/// Any error converts with `?` and counts as transient; use the constructors to say otherwise.
#[derive(Debug, Clone)]
pub struct HandlerError {
    class: ErrorClass,
    message: String,
}

impl HandlerError {
    /// A failure that may pass.
    pub fn transient(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Transient, message)
    }

    /// A failure that will not pass.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// A failure after which nothing should go on.
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self::new(ErrorClass::Fatal, message)
    }

    pub(crate) fn new(class: ErrorClass, message: impl fmt::Display) -> Self {
        Self { class, message: message.to_string() }
    }

    fn with_causes(class: ErrorClass, error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // One that only passes its cause on has said it already.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self { class, message }
    }

    /// What it means.
    pub fn class(&self) -> ErrorClass {
        self.class
    }
}

/// An engine could not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub HandlerError);

impl From<HandlerError> for Failed {
    fn from(error: HandlerError) -> Self {
        Self(error)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Finds the class in the error or in what caused it, so that `?` keeps the meaning of our own errors.
fn classify(error: &(dyn Error + 'static)) -> ErrorClass {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(class) = class_of_link(error) {
            return class;
        }
        next = error.source();
    }
    ErrorClass::Transient
}

fn class_of_link(error: &(dyn Error + 'static)) -> Option<ErrorClass> {
    if let Some(error) = error.downcast_ref::<EngineError>() {
        let fatal = error.kind().is_fatal();
        return Some(if fatal { ErrorClass::Fatal } else { ErrorClass::Transient });
    }
    if let Some(error) = error.downcast_ref::<CommitError>() {
        return match error {
            CommitError::Engine(_) => None,
            CommitError::Conflict { .. } | CommitError::NotFound { .. } => Some(ErrorClass::Transient),
            _ => Some(ErrorClass::Permanent),
        };
    }
    if let Some(error) = error.downcast_ref::<DecodeError>() {
        let newer = matches!(error, DecodeError::Newer { .. });
        return Some(if newer { ErrorClass::Newer } else { ErrorClass::Permanent });
    }
    let permanent = error.is::<TagError>()
        || error.is::<InvalidJson>()
        || error.is::<InvalidKey>()
        || error.is::<InvalidName>()
        || matches!(
            error.downcast_ref(),
            Some(ViewWriteError::TooLarge { .. } | ViewWriteError::OtherStore { .. })
        );
    permanent.then_some(ErrorClass::Permanent)
}

impl<E: Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::with_causes(classify(&error), &error)
    }
}
