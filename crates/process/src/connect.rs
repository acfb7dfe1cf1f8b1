//! Connections to the log and the store, and checks of their availability.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{
    LogError,
    kafka::{KafkaConfig, KafkaLog, topics},
};
use orbweaver_store::{CqlConfig, CqlStore, MeteredStore, Store, StoreError, StoreMetrics};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::{
    health::{Health, LOG, Reachability, STORE},
    service::ServiceError,
};

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Timeout of a check; a slower server counts as unavailable.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Connected log and store of a service.
pub(crate) struct Connected {
    pub(crate) log: Option<Arc<KafkaLog>>,
    pub(crate) store: Option<Arc<dyn Store>>,
}

/// Connects to the log, then to the store, waiting for unavailable servers.
pub(crate) async fn connect(
    kafka: Option<KafkaConfig>,
    cql: Option<CqlConfig>,
    metrics: &StoreMetrics,
    health: &Health,
) -> Result<Connected, ServiceError> {
    let of_store = |error: StoreError| ServiceError::Start(format!("the store: {error}"));
    let log = match kafka {
        None => None,
        Some(kafka) => Some(connect_log(kafka, health).await?),
    };
    let store = match cql {
        None => None,
        Some(cql) => {
            let store: Arc<dyn Store> = Arc::new(CqlStore::connect(cql, metrics.clone()).await.map_err(of_store)?);
            health.checked(STORE, Reachability::Yes);
            Some(Arc::new(MeteredStore::new(store, metrics.clone())) as Arc<dyn Store>)
        }
    };
    Ok(Connected { log, store })
}

async fn connect_log(kafka: KafkaConfig, health: &Health) -> Result<Arc<KafkaLog>, ServiceError> {
    let of_log = |error: LogError| ServiceError::Start(format!("the log: {error}"));
    let log = Arc::new(KafkaLog::connect(kafka).await.map_err(of_log)?);
    let faults = topics::check(&log).await.map_err(of_log)?;
    if !faults.is_empty() {
        let list: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        return Err(if faults.iter().any(topics::TopicProblem::is_of_configuration) {
            ServiceError::Configuration(format!("the configuration conflicts with the settings of the brokers:{list}"))
        } else {
            ServiceError::Start(format!("the topics do not meet the requirements of the pipeline:{list}"))
        });
    }
    health.checked(LOG, Reachability::Yes);
    Ok(log)
}

/// Checks periodically, for readiness, whether log and store are available.
pub(crate) async fn watch(log: Option<Arc<KafkaLog>>, store: Option<Arc<dyn Store>>, health: Arc<Health>) {
    let of_log = async {
        let Some(log) = log else { return std::future::pending().await };
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            health.checked(LOG, reached(timeout(CHECK_TIMEOUT, log.ping()).await));
        }
    };
    let of_store = async {
        let Some(store) = store else { return std::future::pending().await };
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            // No authority has this name: an empty result is a successful response.
            let asked = timeout(CHECK_TIMEOUT, store.robots("probe")).await;
            health.checked(
                STORE,
                match asked {
                    Ok(Err(StoreError::Damaged { .. })) => Reachability::Yes,
                    asked => reached(asked),
                },
            );
        }
    };
    let ((), ()) = tokio::join!(of_log, of_store);
}

fn ticks() -> Interval {
    let mut ticks = interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn reached<T, E: std::fmt::Display>(asked: Result<Result<T, E>, tokio::time::error::Elapsed>) -> Reachability {
    match asked {
        Ok(Ok(_)) => Reachability::Yes,
        Ok(Err(error)) => Reachability::No(error.to_string()),
        Err(_) => Reachability::No(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())),
    }
}
