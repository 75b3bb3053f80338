//! Highwater behind [axum]: what every web application on it needs and none should write again.
//!
//! * [`ReadYourWrites`]: a layer that keeps the consistency token in a signed cookie, so that whoever has written reads
//!   what was written, without any code in the handlers;
//! * [`AtLeast`]: the same token for reads that a handler makes elsewhere;
//! * [`Problem`]: the runtime's errors as problem documents (RFC 9457);
//! * [`SigningKeys`]: keys for cookies and links, with rotation.

mod keys;
mod problem;
mod read_your_writes;

pub use keys::{KeyError, SigningKeys};
pub use problem::Problem;
pub use read_your_writes::{AT_LEAST, AtLeast, ReadYourWrites, ReadYourWritesService};

/// The page in `docs/`, compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/read-your-writes-over-http.md")]
pub struct ReadYourWritesOverHttp;
