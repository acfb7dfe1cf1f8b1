//! Check of the topics' size limits against the record limit.

use std::collections::BTreeMap;

use orbweaver_messages::Topic;
use rdkafka::admin::ResourceSpecifier;

use crate::{
    DEAD_LETTER_ROOM, RECORD_LIMITS,
    kafka::{KafkaLog, producer::FRAMING_BYTES},
    limit::limit_of,
};

/// Topic setting that limits the size of its records.
pub(super) const MAX_MESSAGE_BYTES: &str = "max.message.bytes";

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

/// Returns the remedy of a lower record limit that fits the topic's `max.message.bytes` (pure).
pub(super) fn lower(found: &str) -> String {
    let fits = found.parse::<usize>().unwrap_or(0).saturating_sub(FRAMING_BYTES + DEAD_LETTER_ROOM);
    if fits < *RECORD_LIMITS.start() {
        return String::new();
    }
    format!(
        "; or, if the brokers refuse that, set `kafka.record_limit` to {fits} at most, for all services and commands"
    )
}

/// Returns the limits that a broker reports for itself. Withheld settings are not an error.
pub(super) async fn brokers_limits(log: &KafkaLog) -> String {
    const UNKNOWN: &str = "limits that they do not report";
    let Ok(broker) = log.inquiry.any_broker().await else { return UNKNOWN.to_owned() };
    let asked = [ResourceSpecifier::Broker(broker)];
    let answers = log.inquiry.admin().describe_configs(&asked, &log.inquiry.admin_options()).await;
    let Some(Ok(broker)) = answers.ok().and_then(|answers| answers.into_iter().next()) else {
        return UNKNOWN.to_owned();
    };
    let told = ["message.max.bytes", "replica.fetch.max.bytes"].map(|key| {
        let value = broker.get(key).and_then(|entry| entry.value.as_deref()).unwrap_or("?");
        format!("{key}={value}")
    });
    told.join(" and ")
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    const LIMIT: usize = 16 << 20;

    #[test]
    fn a_topic_that_would_refuse_records_is_told_with_what_it_needs_and_what_would_fit() {
        let of = |bytes: usize| BTreeMap::from([(MAX_MESSAGE_BYTES.to_owned(), bytes.to_string())]);
        let needed = LIMIT + FRAMING_BYTES;
        assert_eq!(refuses(topic::PAGES, LIMIT, &of(needed)), None);
        assert_eq!(refuses(topic::PAGES, LIMIT, &of(needed - 1)), Some(((needed - 1).to_string(), needed)));
        let letter = needed + DEAD_LETTER_ROOM;
        assert_eq!(refuses(topic::DEAD_LETTERS, LIMIT, &of(needed)), Some((needed.to_string(), letter)));
        assert_eq!(refuses(topic::PAGES, LIMIT, &BTreeMap::new()), Some((String::new(), needed)), "not told");

        // Default broker settings.
        assert!(lower("1048588").contains("`kafka.record_limit` to 851980 at most"), "{}", lower("1048588"));
        assert_eq!(refuses(topic::DEAD_LETTERS, 851_980, &of(1_048_588)), None, "what is advised fits");
        assert_eq!(lower("600000"), "", "no limit that is allowed would fit");
    }
}
