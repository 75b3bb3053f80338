//! A panic in a user's code is a failure of that piece of work, not of the process.

use crate::handler::HandlerError;
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

fn failure(panic: &(dyn Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    HandlerError::transient(format!("panicked: {text}"))
}

/// Runs `work`, turning a panic into a transient failure.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, HandlerError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| failure(&*panic))
}

/// Awaits `work`, turning a panic into a transient failure.
pub(crate) async fn guard_async<T>(work: impl Future<Output = T>) -> Result<T, HandlerError> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(failure(&*panic))),
    })
    .await
}
