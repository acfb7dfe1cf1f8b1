//! Metrics of readiness, for alerts.

use std::sync::Arc;

use prometheus::{
    IntGauge, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tokio::time::Instant;

use crate::health::Health;

/// 1 while `/readyz` succeeds. Alert when it is 0 for minutes: `/readyz` names the reasons.
pub const READY: &str = "orbweaver_process_ready";
/// 1 while a server (`log`, `store`) answers, 0 if it does not or has not been checked yet. Alert when it is 0 for a
/// minute.
pub const REACHED: &str = "orbweaver_process_reached";

/// Exports the health of the process as metrics; sends no requests itself.
struct Readiness {
    health: Arc<Health>,
    ready: IntGauge,
    reached: IntGaugeVec,
}

impl Collector for Readiness {
    fn desc(&self) -> Vec<&Desc> {
        self.ready.desc().into_iter().chain(self.reached.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.ready.set(i64::from(self.health.ready(Instant::now()).ok));
        for (server, reached) in self.health.reached() {
            self.reached.with_label_values(&[server]).set(i64::from(reached));
        }
        self.ready.collect().into_iter().chain(self.reached.collect()).collect()
    }
}

/// Registers the metrics of `health`.
pub(crate) fn register(registry: &Registry, health: Arc<Health>) -> Result<(), prometheus::Error> {
    registry.register(Box::new(Readiness {
        health,
        ready: IntGauge::new(READY, "1 while the process is ready")?,
        reached: IntGaugeVec::new(Opts::new(REACHED, "1 while a server answers"), &["server"])?,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::health::{LOG, Reachability, STORE};

    fn shown(registry: &Registry) -> Vec<(String, i64)> {
        let families = registry.gather();
        let metrics = families.iter().flat_map(|family| family.get_metric());
        let name = |metric: &prometheus::proto::Metric| {
            metric.get_label().first().map_or("ready", |label| label.value()).to_owned()
        };
        metrics.map(|metric| (name(metric), metric.get_gauge().get_value() as i64)).collect()
    }

    #[tokio::test]
    async fn metrics_show_what_the_probe_says() {
        let (registry, health) = (Registry::new(), Arc::new(Health::new(Duration::from_secs(60), true, true)));
        register(&registry, health.clone()).unwrap();
        let all = |log, store, ready| {
            [("log", log), ("store", store), ("ready", ready)].map(|(name, value)| (name.to_owned(), value))
        };
        assert_eq!(shown(&registry), all(0, 0, 0));
        health.joins();
        health.checked(LOG, Reachability::Yes);
        health.checked(STORE, Reachability::No("connection refused".to_owned()));
        assert_eq!(shown(&registry), all(1, 0, 0));
        health.checked(STORE, Reachability::Yes);
        assert_eq!(shown(&registry), all(1, 1, 1));
    }
}
