//! Failed logins (pure).
//!
//! librdkafka reports the same error whether a broker rejected the credentials or stopped during the handshake. Once
//! the credentials have been accepted, a failed login is therefore transient for a limited time.

use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode as Code;

/// Interval between two failures after which they are unrelated. librdkafka reports the same failure of a broker at
/// most once in 30 s.
const UNRELATED_AFTER: Duration = Duration::from_secs(120);

/// Returns whether an error means that a connection could not be authenticated or encrypted.
pub(super) fn is_login(code: Code) -> bool {
    matches!(code, Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL)
}

/// Returns whether the text of such an error contains a broker's response. Otherwise the connection ended before it.
pub(super) fn is_rejection(reason: &str) -> bool {
    // `rd_kafka_handle_SaslAuthenticate` and `rd_kafka_broker_handle_SaslHandshake`
    let responses = ["SASL authentication error: ", "handshake failed: Broker: Unsupported SASL mechanism"];
    responses.iter().any(|response| reason.contains(response))
}

/// The failed logins of a client whose credentials were accepted before.
#[derive(Debug, Default)]
pub(super) struct FailedLogins {
    /// First and last failure of the current series.
    series: Option<(Instant, Instant)>,
}

impl FailedLogins {
    /// Records a failure. Returns whether it is transient: the series has not lasted for `patience` yet.
    pub(super) fn is_transient(&mut self, now: Instant, patience: Duration) -> bool {
        let related = |(_, last): &(Instant, Instant)| now.saturating_duration_since(*last) < UNRELATED_AFTER;
        let (first, _) = self.series.filter(related).unwrap_or((now, now));
        self.series = Some((first, now));
        now.saturating_duration_since(first) < patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_stops_during_the_handshake_rejects_nothing() {
        for lost in [
            "sasl_plaintext://kafka:9092/1: SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's \
             supported mechanisms: (n/a) (after 3ms in state AUTH_HANDSHAKE)",
            "kafka:9092: SASL SCRAM-SHA-512 mechanism handshake failed: Local: Timed out: broker's supported mechanisms: ",
            "kafka:9092: Disconnected: hung up from peer in state AUTH_LEGACY",
            "",
        ] {
            assert!(!is_rejection(lost), "{lost}");
        }
        for rejected in [
            "kafka:9092: SASL authentication error: Authentication failed: Invalid username or password (after 2ms in state \
             AUTH_REQ)",
            "kafka:9092: SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported \
             mechanisms: SCRAM-SHA-512",
        ] {
            assert!(is_rejection(rejected), "{rejected}");
        }
    }

    #[test]
    fn failed_logins_are_transient_until_they_have_lasted_for_the_patience() {
        let (patience, begun) = (Duration::from_secs(300), Instant::now());
        let mut logins = FailedLogins::default();
        let mut at = |seconds| logins.is_transient(begun + Duration::from_secs(seconds), patience);
        assert!((0..300).step_by(30).all(&mut at), "within the patience");
        assert!(!at(300));
        assert!(at(420), "the logins in between succeeded: the brokers are restarted again");
        assert!(at(500) && at(600) && at(700) && !at(720));
        assert!(!FailedLogins::default().is_transient(begun, Duration::ZERO), "without patience");
    }
}
