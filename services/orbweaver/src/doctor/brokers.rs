//! Check of the brokers (pure).

use std::time::Duration;

use super::finding::Finding;

/// Time above which an answer counts as slow.
const SLOW: Duration = Duration::from_secs(1);

/// A broker of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSeen {
    pub id: i32,
    /// `HOST:PORT`, as the brokers report it.
    pub address: String,
    /// Time of an answer, or the reason why there was none.
    pub answer: Result<Duration, String>,
}

/// Returns a finding per broker.
#[must_use]
pub fn brokers(seen: &[BrokerSeen]) -> Vec<Finding> {
    if seen.is_empty() {
        return vec![Finding::bad("brokers", "the cluster reports no broker", "check the logs of the brokers")];
    }
    seen.iter().map(broker).collect()
}

fn broker(seen: &BrokerSeen) -> Finding {
    let BrokerSeen { id, address, answer } = seen;
    let check = format!("broker {id}");
    match answer {
        Ok(time) if *time > SLOW => Finding::warn(
            check,
            format!("{address} answered after {} ms", time.as_millis()),
            "check its load and the network between it and this machine; every append waits for all replicas in sync",
        ),
        Ok(time) => Finding::ok(check, format!("{address} answered after {} ms", time.as_millis())),
        Err(error) => Finding::bad(
            check,
            format!("{address} does not answer: {error}"),
            format!(
                "check that it runs, and that this machine can connect to {address}, the address that it reports (`advertised.listeners`)"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_broker_that_does_not_answer_is_bad_and_a_slow_one_a_warning() {
        let seen = |answer| BrokerSeen { id: 1, address: "kafka-1:9092".to_owned(), answer };
        let all = [
            seen(Ok(Duration::from_millis(12))),
            seen(Ok(SLOW)),
            seen(Ok(SLOW + Duration::from_millis(1))),
            seen(Err("timed out".to_owned())),
        ];
        let found = brokers(&all);
        assert_eq!(
            found.iter().map(|finding| finding.level).collect::<Vec<_>>(),
            [Level::Ok, Level::Ok, Level::Warn, Level::Bad]
        );
        assert!(found[0].seen.contains("kafka-1:9092") && found[0].seen.contains("12 ms"), "{found:?}");
        assert!(found[3].advice.as_ref().is_some_and(|advice| advice.contains("advertised.listeners")), "{found:?}");
        assert_eq!(brokers(&[])[0].level, Level::Bad);
    }
}
