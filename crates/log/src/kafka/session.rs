//! Session timeout of a group on the brokers.

use std::time::Duration;

use rdkafka::{admin::ResourceSpecifier, types::RDKafkaErrorCode as Code};

use super::{GroupProtocol, KafkaLog, client::failed};
use crate::LogError;

/// Group setting on the brokers; its default is the brokers' `group.consumer.session.timeout.ms`.
pub const SESSION_TIMEOUT: &str = "consumer.session.timeout.ms";

impl KafkaLog {
    /// Returns how long a member of `group` may be silent before its partitions are reassigned: the configured value
    /// with the classic protocol, the brokers' setting otherwise. `None` if the brokers do not reveal it, for example
    /// without permission to read settings.
    ///
    /// # Errors
    /// If the brokers cannot be queried.
    pub async fn session_timeout(&self, group: &str) -> Result<Option<Duration>, LogError> {
        if self.config.protocol == GroupProtocol::Classic {
            return Ok(Some(self.config.session_timeout));
        }
        let name = self.group_name(group);
        let (admin, options) = (self.inquiry.admin(), self.inquiry.admin_options());
        let answers = admin.describe_configs(&[ResourceSpecifier::Group(&name)], &options).await;
        let answer = answers.map_err(|error| failed("the settings of a group", &error))?.into_iter().next();
        let resource = match answer {
            Some(Ok(resource)) => resource,
            Some(Err(Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed | Code::InvalidRequest))
            | None => {
                return Ok(None);
            }
            Some(Err(code)) => {
                return Err(LogError::Unavailable(format!("the settings of the group `{name}`: {code}")));
            }
        };
        let entry = resource.entries.into_iter().find(|entry| entry.name == SESSION_TIMEOUT);
        let millis = entry.and_then(|entry| entry.value).and_then(|value| value.parse().ok());
        Ok(millis.map(Duration::from_millis))
    }
}
