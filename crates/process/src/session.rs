//! Session of the consumer group, within which all work must end that a process started while it owned its partitions
//! (docs/protocol.md#dispatch-expiry and fenced-requests).
//!
//! Half a session after the last accepted commit no more work is started; the work started last takes up to the longest
//! request. Both together fit into the session, so a member that was cut off or suspended has no request in flight when
//! its partitions are assigned to another.

use std::time::Duration;

use humantime::format_duration;
use orbweaver_log::{
    LogError,
    kafka::{KafkaLog, SESSION_TIMEOUT},
};

/// Durations that must fit into a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence {
    /// `runtime.frozen_after`.
    pub(crate) frozen_after: Duration,
    /// The longest request of the service and its setting; `None` if it sends none.
    pub(crate) longest: Option<(&'static str, Duration)>,
}

/// Returns why a session is too short, with a remedy. Pure.
pub(crate) fn misfit(session: Duration, fence: Fence) -> Option<String> {
    let Fence { frozen_after, longest } = fence;
    let half = session / 2;
    let show =
        |time: Duration| format_duration(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    if frozen_after > half {
        return Some(format!(
            "`runtime.frozen_after` is {}; allowed is at most half of the session, {}",
            show(frozen_after),
            show(half)
        ));
    }
    let (key, request) = longest.filter(|(_, request)| *request > session - half)?;
    Some(format!(
        "`{key}` is {}; allowed is at most {}, so that half a session and the longest request are within the session",
        show(request),
        show(session - half)
    ))
}

/// Queries the brokers for the session timeout of `group` and returns why it is too short, if so. `assumed` applies if
/// the brokers do not report one.
pub(crate) async fn check(
    log: &KafkaLog,
    group: &str,
    assumed: Duration,
    fence: Fence,
) -> Result<Option<String>, LogError> {
    let told = log.session_timeout(group).await?;
    if told.is_none() {
        tracing::warn!(group, assumed = ?assumed, "the brokers do not tell the session timeout; assuming kafka.session_timeout");
    }
    let (session, name) = (told.unwrap_or(assumed), log.group_name(group));
    tracing::info!(group = name, ?session, "session timeout");
    Ok(misfit(session, fence).map(|reason| {
        let brokers = &log.config().brokers;
        format!(
            "the session of the group `{name}` is {}, but {reason}; lower it, or lengthen the session with \
             `kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type groups --entity-name {name} \
             --add-config {SESSION_TIMEOUT}=45000`",
            format_duration(session)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn half_a_session_and_the_longest_request_are_within_the_session_or_the_setting_is_named_with_what_is_allowed() {
        let fence = |frozen, request| Fence {
            frozen_after: seconds(frozen),
            longest: Some(("fetcher.request_timeout", seconds(request))),
        };
        assert_eq!(misfit(seconds(45), fence(20, 20)), None);
        assert_eq!(misfit(seconds(44), fence(22, 22)), None);
        let long = misfit(seconds(45), fence(20, 23)).unwrap();
        assert!(long.starts_with("`fetcher.request_timeout` is 23s; allowed is at most 22s 500ms"), "{long}");
        let frozen = misfit(seconds(6), fence(20, 3)).unwrap();
        assert_eq!(frozen, "`runtime.frozen_after` is 20s; allowed is at most half of the session, 3s");
        assert_eq!(misfit(seconds(6), Fence { frozen_after: seconds(3), longest: None }), None);
    }
}
