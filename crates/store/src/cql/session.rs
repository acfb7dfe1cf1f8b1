//! Sessions: opened with retries, and replaced if they do not reconnect to their servers.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::Consistency;
use tokio::time::{Instant, sleep, timeout};

use super::failure::Failure;
use super::statements::Statements;
use super::{CqlConfig, CqlConsistency, schema, tls};
use crate::{StoreError, StoreMetrics};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for opening a session, including discovery of the cluster.
pub(super) const OPENING_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval and timeout of keepalive requests; a connection without a response is dropped, since a hanging server does
/// not close it.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Wait before the first retry at the start; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Interval at which unavailable servers are reported at the start.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Time after which a session whose requests all fail is replaced. The driver waits up to 10 s before it reconnects,
/// which is not configurable.
const RENEW_AFTER: Duration = Duration::from_secs(2);
/// Minimum interval between attempts to open a new session.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Session with its prepared statements.
pub(super) struct PreparedSession {
    pub(super) session: Session,
    pub(super) statements: Statements,
}

impl PreparedSession {
    /// Opens a session and applies missing migrations. Retries until it succeeds or fails permanently.
    pub(super) async fn open_patiently(config: &CqlConfig) -> Result<Self, StoreError> {
        let (mut wait, mut reported) = (FIRST_WAIT, None::<Instant>);
        loop {
            match Self::open(config, true).await {
                Ok(live) => return Ok(live),
                Err(StoreError::Failed(reason)) if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) => {
                    reported = Some(Instant::now());
                    tracing::warn!(nodes = ?config.nodes, reason, "CQL servers unavailable; retrying");
                }
                Err(StoreError::Failed(_)) => {}
                Err(error) => return Err(error),
            }
            sleep(wait).await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }

    /// Opens a session, in one attempt.
    async fn open(config: &CqlConfig, migrate: bool) -> Result<Self, StoreError> {
        let doing = format!("opening a session with {}", config.nodes.join(", "));
        let late = || Failure::timeout(format!("no answer within {} s", OPENING_TIMEOUT.as_secs()));
        let builder = builder(config).map_err(StoreError::Refused)?;
        let opened = timeout(OPENING_TIMEOUT, builder.build()).await;
        let session = opened.map_err(|_| late()).and_then(|session| session.map_err(Failure::from));
        let session = session.map_err(|failure| failure.while_doing(&doing))?;
        if migrate {
            schema::migrate(&session, config).await?;
        }
        let preparing = timeout(OPENING_TIMEOUT, Statements::prepare(&session, &config.keyspace)).await;
        let statements = preparing.map_err(|_| late()).and_then(|statements| statements);
        let statements = statements.map_err(|failure| failure.while_doing("preparing statements"))?;
        Ok(Self { session, statements })
    }
}

pub(super) fn builder(config: &CqlConfig) -> Result<SessionBuilder, String> {
    let consistency = match config.consistency {
        CqlConsistency::One => Consistency::One,
        CqlConsistency::LocalOne => Consistency::LocalOne,
        CqlConsistency::Quorum => Consistency::Quorum,
        CqlConsistency::LocalQuorum => Consistency::LocalQuorum,
        CqlConsistency::All => Consistency::All,
    };
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &config.datacenter {
        policy = policy.prefer_datacenter(datacenter.clone());
    }
    let profile = ExecutionProfile::builder()
        .consistency(consistency)
        .request_timeout(Some(config.request_timeout))
        .load_balancing_policy(policy.build())
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&config.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .keyspaces_to_fetch([&config.keyspace])
        .connection_timeout(CONNECTION_TIMEOUT)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .tls_context(tls::client_config(config)?);
    if let (Some(username), Some(password)) = (&config.username, &config.password) {
        builder = builder.user(username, password);
    }
    Ok(builder)
}

/// The current session and its state.
pub(super) struct Sessions {
    config: CqlConfig,
    metrics: StoreMetrics,
    current: RwLock<Arc<PreparedSession>>,
    /// Time since which every request has failed.
    failing_since: Mutex<Option<Instant>>,
    /// Time of the last attempt to open a new session. Locked during an attempt.
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

impl Sessions {
    pub(super) fn new(config: CqlConfig, metrics: StoreMetrics, live: PreparedSession) -> Self {
        Self {
            config,
            metrics,
            current: RwLock::new(Arc::new(live)),
            failing_since: Mutex::new(None),
            renewed: tokio::sync::Mutex::new(None),
        }
    }

    pub(super) fn current(&self) -> Arc<PreparedSession> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a successful request.
    pub(super) fn succeeded(&self) {
        *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Records a transient failure. Returns a new session if the current one has failed for [`RENEW_AFTER`] and its
    /// servers are available. Only one request at a time tries this; the others continue to fail meanwhile.
    pub(super) async fn failed(&self) -> Option<Arc<PreparedSession>> {
        let since = *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        if since.elapsed() < RENEW_AFTER {
            return None;
        }
        let mut renewed = self.renewed.try_lock().ok()?;
        if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return None;
        }
        let opened = PreparedSession::open(&self.config, false).await;
        *renewed = Some(Instant::now());
        match opened {
            Ok(live) => {
                let live = Arc::new(live);
                tracing::info!(failing_ms = since.elapsed().as_millis(), "a new session replaces one that failed");
                self.metrics.cql_sessions_renewed.inc();
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&live);
                Some(live)
            }
            Err(error) => {
                tracing::debug!(%error, "a new session cannot be opened yet");
                None
            }
        }
    }
}
