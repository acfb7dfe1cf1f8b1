//! One outstanding record a site (rule 7), and what waits for it.

use orbweaver_stage::Origin;

/// The records of one site in `crawl.sites`.
#[derive(Debug, Default)]
pub struct Writes {
    in_flight: bool,
    /// The memory changed after the record in flight was made: another one follows.
    again: bool,
    /// Outcomes that complete with the next record.
    held: Vec<Origin>,
}

impl Writes {
    /// The memory changed because of `origin` (or must be written anew without one). When a record is to be written now, gives
    /// the origins that complete with it.
    pub fn request(&mut self, origin: Option<Origin>) -> Option<Vec<Origin>> {
        self.held.extend(origin);
        if self.in_flight {
            self.again = true;
            return None;
        }
        self.in_flight = true;
        Some(std::mem::take(&mut self.held))
    }

    /// The record in flight is durable. When the next one is to be written now, gives the origins that complete with it.
    pub fn settled(&mut self) -> Option<Vec<Origin>> {
        self.in_flight = std::mem::take(&mut self.again);
        self.in_flight.then(|| std::mem::take(&mut self.held))
    }

    /// Whether a record is on its way.
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
        Origin { place: TopicPartition::new(topic::OUTCOMES, 0), offset, epoch: 1 }
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
