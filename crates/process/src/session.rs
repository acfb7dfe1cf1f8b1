//! Session of the consumer group: all work that a process starts while it owns its partitions must end within it
//! (docs/protocol.md#dispatch-expiry and fenced-requests).
//!
//! No work is started later than `runtime.frozen_after` after the last accepted commit, and the work started last takes
//! up to the longest request. Both fit into the rest of the session at a commit, so a member that was cut off or
//! suspended has no request in flight when its partitions are assigned to another.

use std::time::Duration;

use humantime::format_duration;
use orbweaver_log::{
    LogError,
    kafka::{KafkaLog, SESSION_TIMEOUT, Session},
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
pub(crate) fn misfit(session: Session, fence: Fence) -> Option<String> {
    let Fence { frozen_after, longest } = fence;
    let half = session.timeout / 2;
    let show =
        |time: Duration| format_duration(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    if frozen_after > half {
        return Some(format!(
            "`runtime.frozen_after` is {}; allowed: at most half of the session, {}",
            show(frozen_after),
            show(half)
        ));
    }
    let room = session.timeout.saturating_sub(frozen_after + session.heartbeat);
    let (key, request) = longest.filter(|(_, request)| *request > room)?;
    Some(format!(
        "`{key}` is {}; allowed: at most {}, so that the longest request, `runtime.frozen_after` ({}) and the time between \
         heartbeats ({}) are within the session",
        show(request),
        show(room),
        show(frozen_after),
        show(session.heartbeat)
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
    let reported = log.session(group).await?;
    if reported.is_none() {
        tracing::warn!(
            group,
            ?assumed,
            "the brokers do not report the session timeout; assuming kafka.session_timeout"
        );
    }
    let (session, name) = (reported.unwrap_or_else(|| Session::assumed(assumed)), log.group_name(group));
    tracing::info!(group = name, ?session, "session timeout");
    Ok(misfit(session, fence).map(|reason| {
        let brokers = &log.config().brokers;
        format!(
            "the session of the group `{name}` is {}, but {reason}; lower it, or lengthen the session with \
             `kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type groups --entity-name {name} \
             --add-config {SESSION_TIMEOUT}=45000`",
            format_duration(session.timeout)
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
    fn the_fence_the_longest_request_and_a_heartbeat_are_within_the_session_or_the_setting_is_named() {
        let fence = |frozen, request| Fence {
            frozen_after: seconds(frozen),
            longest: Some(("fetcher.request_timeout", seconds(request))),
        };
        let session = |timeout, heartbeat| Session { timeout: seconds(timeout), heartbeat: seconds(heartbeat) };
        assert_eq!(misfit(session(45, 5), fence(20, 20)), None);
        assert_eq!(misfit(session(44, 0), fence(22, 22)), None);
        let long = misfit(session(45, 5), fence(22, 22)).unwrap();
        assert_eq!(
            long,
            "`fetcher.request_timeout` is 22s; allowed: at most 18s, so that the longest request, `runtime.frozen_after` \
             (22s) and the time between heartbeats (5s) are within the session"
        );
        assert!(misfit(session(45, 15), fence(20, 20)).is_some(), "a heartbeat that is due counts, too");
        let frozen = misfit(session(6, 0), fence(20, 3)).unwrap();
        assert_eq!(frozen, "`runtime.frozen_after` is 20s; allowed: at most half of the session, 3s");
        assert_eq!(misfit(session(6, 0), Fence { frozen_after: seconds(3), longest: None }), None);
    }
}
