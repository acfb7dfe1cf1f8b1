//! Check of the size limits of topics and brokers against the record limit.

use std::collections::BTreeMap;

use orbweaver_messages::{Topic, topic};
use rdkafka::admin::ResourceSpecifier;

use crate::{
    DEAD_LETTER_ROOM, RECORD_LIMITS,
    kafka::{KafkaLog, producer::FRAMING_BYTES},
    limit::limit_of,
};

/// Topic setting that limits the size of its records.
pub(super) const MAX_MESSAGE_BYTES: &str = "max.message.bytes";

/// Broker setting that limits the size of a request. The broker closes the connection of a client that exceeds it.
const REQUEST_MAX_BYTES: &str = "socket.request.max.bytes";
/// Maximum bytes of a produce request other than its batch. librdkafka sends one batch per request.
const REQUEST_BYTES: usize = 4 << 10;

/// Returns the maximum batch size for a topic. The topic setting overrides the brokers' `message.max.bytes`.
pub(super) fn max_message_bytes(topic: Topic, record_limit: usize) -> usize {
    FRAMING_BYTES + limit_of(topic, record_limit)
}

/// Returns the current and the required limit of a topic, if it is too low for the largest record (pure).
pub(super) fn refuses(topic: Topic, record_limit: usize, found: &BTreeMap<String, String>) -> Option<(String, usize)> {
    let wanted = max_message_bytes(topic, record_limit);
    let found = found.get(MAX_MESSAGE_BYTES).cloned().unwrap_or_default();
    let well = found.parse().is_ok_and(|bytes: usize| bytes >= wanted);
    (!well).then_some((found, wanted))
}

/// Returns the current and the required request limit of a broker, if it is too low for a request with the largest
/// record. A broker that does not report it may accept the request (pure).
pub(super) fn refuses_request(record_limit: usize, broker: &BTreeMap<String, String>) -> Option<(usize, usize)> {
    let wanted = REQUEST_BYTES + max_message_bytes(topic::DEAD_LETTERS, record_limit);
    let found: usize = broker.get(REQUEST_MAX_BYTES)?.parse().ok()?;
    (found < wanted).then_some((found, wanted))
}

/// Returns the remedy of a lower record limit that fits the topic's `max.message.bytes` (pure).
pub(super) fn lower(max_message_bytes: usize) -> String {
    let fits = max_message_bytes.saturating_sub(FRAMING_BYTES + DEAD_LETTER_ROOM);
    if fits < *RECORD_LIMITS.start() {
        return String::new();
    }
    format!(
        "; or, if the brokers refuse that, set `kafka.record_limit` to {fits} at most, for all services and commands"
    )
}

/// Returns the remedy of a lower record limit that fits the broker's `socket.request.max.bytes` (pure).
pub(super) fn lower_for_request(request_max_bytes: usize) -> String {
    lower(request_max_bytes.saturating_sub(REQUEST_BYTES))
}

/// Returns the settings that a broker reports for itself; none if it withholds them.
pub(super) async fn broker_settings(log: &KafkaLog) -> BTreeMap<String, String> {
    let Ok(broker) = log.queries.any_broker().await else { return BTreeMap::new() };
    let answers = log.queries.settings(&[ResourceSpecifier::Broker(broker)]).await;
    let Some(Ok(broker)) = answers.ok().and_then(|answers| answers.into_iter().next()) else {
        return BTreeMap::new();
    };
    broker.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect()
}

/// Returns the limits among a broker's settings as text (pure).
pub(super) fn brokers_limits(broker: &BTreeMap<String, String>) -> String {
    if broker.is_empty() {
        return "limits that they do not report".to_owned();
    }
    let limits = ["message.max.bytes", "replica.fetch.max.bytes"].map(|key| {
        let value = broker.get(key).map_or("?", String::as_str);
        format!("{key}={value}")
    });
    limits.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::topics::TopicProblem;

    const LIMIT: usize = 16 << 20;

    #[test]
    fn a_topic_that_would_refuse_records_is_told_with_what_it_needs_and_what_would_fit() {
        let of = |bytes: usize| BTreeMap::from([(MAX_MESSAGE_BYTES.to_owned(), bytes.to_string())]);
        let needed = LIMIT + FRAMING_BYTES;
        assert_eq!(refuses(topic::PAGES, LIMIT, &of(needed)), None);
        assert_eq!(refuses(topic::PAGES, LIMIT, &of(needed - 1)), Some(((needed - 1).to_string(), needed)));
        let letter = needed + DEAD_LETTER_ROOM;
        assert_eq!(refuses(topic::DEAD_LETTERS, LIMIT, &of(needed)), Some((needed.to_string(), letter)));
        assert_eq!(refuses(topic::PAGES, LIMIT, &BTreeMap::new()), Some((String::new(), needed)), "unreported");

        // Default broker settings.
        assert!(lower(1_048_588).contains("`kafka.record_limit` to 851980 at most"), "{}", lower(1_048_588));
        assert_eq!(refuses(topic::DEAD_LETTERS, 851_980, &of(1_048_588)), None, "the advised limit fits");
        assert_eq!(lower(600_000), "", "no limit that is allowed would fit");
    }

    #[test]
    fn a_broker_that_would_refuse_the_request_of_the_largest_record_is_reported_with_what_it_needs() {
        let of = |bytes: usize| BTreeMap::from([(REQUEST_MAX_BYTES.to_owned(), bytes.to_string())]);
        let needed = LIMIT + DEAD_LETTER_ROOM + FRAMING_BYTES + REQUEST_BYTES;
        assert_eq!(refuses_request(LIMIT, &of(needed)), None);
        assert_eq!(refuses_request(LIMIT, &of(needed - 1)), Some((needed - 1, needed)));
        assert_eq!(refuses_request(*RECORD_LIMITS.end(), &of(104_857_600)), None, "the default of the brokers");
        let lowered = lower_for_request(8 << 20);
        let fits = (8 << 20) - DEAD_LETTER_ROOM - FRAMING_BYTES - REQUEST_BYTES;
        assert!(lowered.contains(&format!("`kafka.record_limit` to {fits} at most")), "{lowered}");
        assert_eq!(refuses_request(fits, &of(8 << 20)), None, "the advised limit fits");
        assert_eq!(refuses_request(fits + 1, &of(8 << 20)), Some((8 << 20, (8 << 20) + 1)));
    }

    #[test]
    fn a_broker_that_does_not_report_its_request_limit_passes() {
        let withheld = BTreeMap::from([("message.max.bytes".to_owned(), "1048588".to_owned())]);
        assert_eq!(refuses_request(LIMIT, &withheld), None);
        assert_eq!(refuses_request(LIMIT, &BTreeMap::new()), None);
        assert_eq!(brokers_limits(&withheld), "message.max.bytes=1048588 and replica.fetch.max.bytes=?");
        assert_eq!(brokers_limits(&BTreeMap::new()), "limits that they do not report");
    }

    #[test]
    fn a_request_limit_that_is_too_low_names_record_topic_and_broker() {
        let fault = TopicProblem::RequestLimit {
            name: "crawl.dead-letters".to_owned(),
            limit: LIMIT,
            max_message_bytes: "16973824".to_owned(),
            found: 8 << 20,
            wanted: 16_977_920,
            lower: lower_for_request(8 << 20),
        };
        let message = fault.to_string();
        for part in [
            "16777216 bytes (`kafka.record_limit`)",
            "`crawl.dead-letters` has max.message.bytes=16973824",
            "socket.request.max.bytes=8388608",
            "needs 16977920",
            "set `kafka.record_limit` to 8187904 at most",
        ] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
        assert!(fault.is_of_configuration());
    }
}
