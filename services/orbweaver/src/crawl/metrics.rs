//! Metrics of a crawl in one process over HTTP.

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use orbweaver_http_server::{Limits, listen, metrics, serve};
use prometheus::Registry;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    cli::address,
    exit::{Failure, failed},
};

const LIMITS: Limits = Limits {
    connections: 16,
    head_timeout: Duration::from_secs(5),
    head_bytes: 16 << 10,
    lifetime: Duration::from_mins(2),
    grace: Duration::from_millis(50),
};

/// Metrics of `orbweaver crawl`.
#[derive(Debug, Args)]
pub struct MetricsOptions {
    /// Serve the metrics of all services in the text format of Prometheus while the crawl runs, at http://ADDRESS/metrics,
    /// such as 127.0.0.1:9469; port 0 selects a free one. Anyone who can connect can read them. On a cluster each service
    /// has metrics of its own.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    #[cfg_attr(feature = "cluster", arg(conflicts_with = "brokers"))]
    pub metrics: Option<SocketAddr>,
}

impl MetricsOptions {
    /// Serves the metrics of a registry, if this is wanted, until the result is dropped.
    ///
    /// # Errors
    /// Fails if the address cannot be listened on.
    pub(crate) async fn serve(&self, registry: &Registry) -> Result<Option<DropGuard>, Failure> {
        let Some(address) = self.metrics else { return Ok(None) };
        let named = |error: &dyn std::fmt::Display| failed(format!("--metrics: {error}"));
        // Memory, CPU time, descriptors and threads of the process.
        #[cfg(target_os = "linux")]
        registry
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
            .map_err(|error| named(&error))?;
        let (listener, address) = listen(address).await.map_err(|error| named(&error))?;
        notice!("metrics: http://{address}/metrics");
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, metrics(registry.clone()), LIMITS, stop.clone()));
        Ok(Some(stop.drop_guard()))
    }
}
