//! Session of a group on the brokers.

use std::time::Duration;

use rdkafka::{admin::ResourceSpecifier, types::RDKafkaErrorCode as Code};

use super::{GroupProtocol, KafkaLog};
use crate::LogError;

/// Group setting on the brokers; its default is the brokers' `group.consumer.session.timeout.ms`.
pub const SESSION_TIMEOUT: &str = "consumer.session.timeout.ms";
/// Group setting on the brokers; its default is the brokers' `group.consumer.heartbeat.interval.ms`.
const HEARTBEAT_INTERVAL: &str = "consumer.heartbeat.interval.ms";
/// The brokers' own default of [`HEARTBEAT_INTERVAL`].
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(5);

/// Session of the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Silence of a member after which its partitions are reassigned.
    pub timeout: Duration,
    /// Maximum age of the session when a commit is accepted: the heartbeat interval, since only heartbeats renew the
    /// session; 0 with `classic`, where a commit renews it too.
    pub heartbeat: Duration,
}

impl Session {
    /// Returns the session of a group with the brokers' default heartbeat interval.
    #[must_use]
    pub fn assumed(timeout: Duration) -> Self {
        Self { timeout, heartbeat: DEFAULT_HEARTBEAT }
    }
}

impl KafkaLog {
    /// Returns the session of the members of `group`: the configured one with the classic protocol, the brokers'
    /// settings otherwise. `None` if the brokers do not reveal them, for example without permission to read settings.
    pub async fn session(&self, group: &str) -> Result<Option<Session>, LogError> {
        if self.config.protocol == GroupProtocol::Classic {
            return Ok(Some(Session { timeout: self.config.session_timeout, heartbeat: Duration::ZERO }));
        }
        let name = self.group_name(group);
        let answers = self.queries.settings(&[ResourceSpecifier::Group(&name)]).await?;
        let resource = match answers.into_iter().next() {
            Some(Ok(resource)) => resource,
            Some(Err(Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed | Code::InvalidRequest))
            | None => {
                return Ok(None);
            }
            Some(Err(code)) => {
                return Err(LogError::Unavailable(format!("the settings of the group `{name}`: {code}")));
            }
        };
        let setting = |key: &str| {
            let entry = resource.entries.iter().find(|entry| entry.name == key)?;
            entry.value.as_deref()?.parse().ok().map(Duration::from_millis)
        };
        let heartbeat = setting(HEARTBEAT_INTERVAL).unwrap_or(DEFAULT_HEARTBEAT);
        Ok(setting(SESSION_TIMEOUT).map(|timeout| Session { timeout, heartbeat }))
    }
}
