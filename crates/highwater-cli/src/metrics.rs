//! Counts what the engine does, in the text format of Prometheus.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

/// How often measured times are moved into their summaries; without it they pile up while nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// What was counted since the program started.
#[derive(Clone)]
pub(crate) struct Metrics(PrometheusHandle);

impl Metrics {
    /// Starts to count.
    ///
    /// # Errors
    /// When something else counts already.
    pub(crate) fn record() -> Result<Self, BuildError> {
        let handle = PrometheusBuilder::new().install_recorder()?;
        let upkeep = handle.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        Ok(Self(handle))
    }

    pub(crate) fn render(&self) -> impl IntoResponse + use<> {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], self.0.render())
    }
}
