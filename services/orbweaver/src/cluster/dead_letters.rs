//! `orbweaver dead-letters`: shows and replays records that could not be processed.

mod replay;
mod replayed;

use std::time::Duration;

use orbweaver_log::{Bounds, ConsumerRecord, Log, LogError, topic_partitions};
use orbweaver_messages::topic::DEAD_LETTERS;

use self::{
    replay::{replay, replay_all},
    replayed::replayed,
};
use super::{args::DeadLettersVerb, connection::block_on};
use crate::{
    crawl::dead_letters::{Shown, Span, letter, read, shown},
    exit::{Failure, failed},
    output::{json_line, to_stdout},
};

/// Group whose commits record the replayed dead letters.
pub const REPLAY_GROUP: &str = "dead-letters-replay";
/// Timeout per poll.
const WAIT: Duration = Duration::from_secs(5);

/// Runs `orbweaver dead-letters`.
///
/// # Errors
/// Fails if the log cannot be read, or a dead letter does not exist or cannot be replayed.
pub fn run(verb: &DeadLettersVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            DeadLettersVerb::List { limit, stuck, cluster } => {
                let log = cluster.connect().await?;
                let letters = list(&log, *limit, *stuck).await.map_err(failed)?;
                to_stdout(|out| letters.iter().try_for_each(|letter| json_line(out, letter)))?;
                if letters.len() == *limit {
                    notice!("only the oldest {limit} are shown; a higher --limit shows more, if there are any");
                }
                Ok(())
            }
            DeadLettersVerb::Replay { ids, all, cluster } => {
                let log = cluster.connect().await?;
                let replayed = if *all { replay_all(&log).await? } else { replay(&log, ids).await? };
                notice!("{replayed} records replayed");
                Ok(())
            }
        }
    })
}

/// Returns the oldest dead letters; with `stuck`, only URLs that ended as stuck.
async fn list(log: &dyn Log, limit: usize, stuck: bool) -> Result<Vec<Shown>, LogError> {
    let mut letters = vec![];
    for tp in topic_partitions(log, &[DEAD_LETTERS])? {
        let Bounds { start, end } = log.bounds(tp).await?;
        let most = letters.len() + limit;
        let take = |record: &ConsumerRecord| {
            if !stuck || is_stuck(record) {
                letters.push((record.timestamp_ms, shown(record)));
            }
            letters.len() < most
        };
        read((tp, start, end), log, take).await?;
    }
    letters.sort_by_key(|(at, _)| *at);
    Ok(letters.into_iter().take(limit).map(|(_, letter)| letter).collect())
}

/// Returns the dead letters that were not replayed, in ascending order; no span is empty.
pub async fn left(log: &dyn Log) -> Result<Vec<Span>, LogError> {
    let replayed = replayed(log, &topic_partitions(log, &[DEAD_LETTERS])?).await?;
    Ok(replayed.iter().flat_map(|(replayed, end)| replayed.left(*end)).collect())
}

/// Counts the URLs in these spans that ended as stuck. Reads all records of the spans.
pub async fn count_stuck(log: &dyn Log, spans: &[Span]) -> Result<u64, LogError> {
    let mut count = 0;
    for span in spans {
        let take = |record: &ConsumerRecord| {
            count += u64::from(is_stuck(record));
            true
        };
        read(*span, log, take).await?;
    }
    Ok(count)
}

fn is_stuck(record: &ConsumerRecord) -> bool {
    letter(record).is_ok_and(|letter| letter.is_stuck())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_log::{Cleanup, MemoryLog, Offset, Record, TopicPartition, TopicSpec};
    use orbweaver_messages::{DeadLetter, STUCK, encode, topic};
    use orbweaver_stage::DEAD_LETTER_HEADER;

    use super::*;

    pub(super) fn dead_letter(partition: u32, topic: &str, reason: String) -> Record {
        let letter = DeadLetter {
            service: "frontier".to_owned(),
            reason,
            topic: topic.to_owned(),
            partition,
            offset: 3,
            rejected_at_ms: 7,
        };
        Record {
            tp: TopicPartition::new(DEAD_LETTERS, partition),
            key: None,
            value: Some(Bytes::from_static(b"{}")),
            headers: vec![(DEAD_LETTER_HEADER, encode(&letter))],
            timestamp_ms: 7,
        }
    }

    #[tokio::test]
    async fn urls_that_ended_as_stuck_are_counted_and_listed_until_they_are_replayed() {
        let topics = [DEAD_LETTERS, topic::FRONTIER, topic::SEEDS];
        let log = MemoryLog::new(&topics.map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)));
        assert_eq!(left(&log).await.unwrap(), []);
        let (frontier, seeds) = (topic::FRONTIER.0, topic::SEEDS.0);
        let stuck = || format!("{STUCK}: 10 dispatches had no outcome, while later dispatches of other URLs had one");
        let letters = vec![
            dead_letter(0, seeds, "not a URL".to_owned()),
            dead_letter(0, frontier, stuck()),
            dead_letter(1, frontier, format!("{STUCK}y record")),
            dead_letter(1, seeds, stuck()),
            dead_letter(1, frontier, stuck()),
        ];
        log.append(letters).await.unwrap();
        let spans = left(&log).await.unwrap();
        assert_eq!(spans.iter().map(|(_, from, end)| end - from).sum::<Offset>(), 5);
        assert_eq!(count_stuck(&log, &spans).await.unwrap(), 2);
        let ids = |letters: Vec<Shown>| letters.into_iter().map(|letter| letter.id).collect::<Vec<_>>();
        assert_eq!(ids(list(&log, 100, true).await.unwrap()), ["0:1", "1:2"]);
        assert_eq!(ids(list(&log, 1, true).await.unwrap()), ["0:1"]);
        assert_eq!(list(&log, 3, false).await.unwrap().len(), 3);

        assert_eq!(replay_all(&log).await.unwrap(), 5);
        let spans = left(&log).await.unwrap();
        assert_eq!((spans.len(), count_stuck(&log, &spans).await.unwrap()), (0, 0));
    }
}
