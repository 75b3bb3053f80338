//! The one place that knows engines by name.

use crate::builder::StartError;
use highwater_core::{Backend, Clock};
use std::sync::Arc;

/// Opens the store that a URL names.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Backend, StartError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = rest.to_owned();
            let opening = tokio::task::spawn_blocking(move || {
                highwater_sqlite::open(&path, highwater_sqlite::Options::default(), clock)
            });
            let opened = opening.await.map_err(|error| StartError::Open { reason: error.to_string() })?;
            opened.map_err(|error| StartError::Open { reason: error.to_string() })
        }
        _ => {
            let _ = (rest, clock);
            Err(StartError::UnknownUrl { url: scheme.chars().take(32).collect() })
        }
    }
}
