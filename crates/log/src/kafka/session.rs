//! How long the brokers wait for a silent member of a group.

use std::time::Duration;

use rdkafka::{admin::ResourceSpecifier, types::RDKafkaErrorCode as Code};

use super::{GroupProtocol, KafkaLog, client::failed};
use crate::LogError;

/// The setting of a group on the brokers, whose default is `group.consumer.session.timeout.ms` of the broker.
pub const SESSION_TIMEOUT: &str = "consumer.session.timeout.ms";

impl KafkaLog {
    /// How long a member of `group` may be silent before its partitions go to others: with the classic protocol what it asks
    /// for itself, else what the brokers say. `None` where they do not say it, such as without the right to read settings.
    ///
    /// # Errors
    /// When the brokers cannot be asked.
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
