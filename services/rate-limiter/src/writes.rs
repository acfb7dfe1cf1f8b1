//! One unacknowledged record per site (docs/protocol.md#one-write-per-key), and the outcomes that wait for the next.

use orbweaver_stage::Origin;

/// The records of one site in `crawl.sites`.
#[derive(Debug, Default)]
pub struct Writes {
    in_flight: bool,
    /// State changed after the record in flight was made, so another one follows.
    again: bool,
    /// Outcomes that complete with the next record.
    held: Vec<Origin>,
}

impl Writes {
    /// Requests a record because `origin` changed the state, or, without an origin, because the record must be written
    /// again. Returns the origins that complete with the record if it is to be written now.
    pub fn request(&mut self, origin: Option<Origin>) -> Option<Vec<Origin>> {
        self.held.extend(origin);
        if self.in_flight {
            self.again = true;
            return None;
        }
        self.in_flight = true;
        Some(std::mem::take(&mut self.held))
    }

    /// Handles the acknowledgement of the record in flight. Returns the origins that complete with the next record if
    /// one is to be written now.
    pub fn settled(&mut self) -> Option<Vec<Origin>> {
        self.in_flight = std::mem::take(&mut self.again);
        self.in_flight.then(|| std::mem::take(&mut self.held))
    }

    /// Returns `true` if a record is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::topic;

    use super::*;

    fn origin(offset: u64) -> Origin {
        Origin { tp: TopicPartition::new(topic::OUTCOMES, 0), offset, assignment_epoch: 1 }
    }

    #[test]
    fn changes_during_a_write_are_written_once_and_complete_together() {
        let mut writes = Writes::default();
        assert_eq!(writes.request(Some(origin(1))), Some(vec![origin(1)]));
        assert_eq!(writes.request(Some(origin(2))), None);
        assert_eq!(writes.request(None), None);
        assert_eq!(writes.request(Some(origin(3))), None);
        assert_eq!(writes.settled(), Some(vec![origin(2), origin(3)]));
        assert!(writes.is_busy());
        assert_eq!(writes.settled(), None);
        assert!(!writes.is_busy());
    }
}
