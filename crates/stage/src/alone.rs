//! Rule 17: after a record has killed its reader, records are taken one at a time, and the culprit is sent to the dead
//! letters.

use std::collections::VecDeque;

use orbweaver_log::{Delivered, Offset, TopicPartition};

use crate::{Origin, Stage, StageError, claim::is_claim, metadata::Suspect, served::Delivery, turn::Turns};

/// A place whose records are taken one at a time.
#[derive(Debug)]
pub(crate) struct Alone {
    /// How many are still taken like this.
    pub(crate) left: usize,
    /// Delivered, and not yet given to the stage; what one poll brought, since the place is paused then.
    pub(crate) waiting: VecDeque<Delivered>,
    /// The one that was committed as being tried.
    pub(crate) trying: Option<Offset>,
    /// The same, once the stage has it.
    pub(crate) given: Option<Origin>,
    /// The one that was in work alone when the process ended before.
    pub(crate) suspect: Option<Suspect>,
}

impl Alone {
    pub(crate) fn new(left: usize, suspect: Option<Suspect>) -> Self {
        Self { left, waiting: VecDeque::new(), trying: None, given: None, suspect }
    }

    /// Whether this record must not be given to the stage again.
    fn is_culprit(&self, offset: Offset) -> bool {
        self.suspect.is_some_and(|suspect| suspect.offset == offset && suspect.is_culprit())
    }

    /// How often the process ended while the record that is tried now was in work alone.
    pub(crate) fn deaths(&self) -> u32 {
        self.suspect.filter(|suspect| self.trying == Some(suspect.offset)).map_or(0, |suspect| suspect.deaths)
    }

    /// Whether no further record is wanted from the log.
    pub(crate) fn is_occupied(&self) -> bool {
        self.given.is_some() || !self.waiting.is_empty()
    }
}

impl<S: Stage> Turns<S> {
    /// Notes that an origin is complete or parked.
    pub(crate) fn left_alone(&mut self, origin: Origin) {
        if self.alone.is_empty() {
            return;
        }
        if let Some(alone) = self.alone.get_mut(&origin.place).filter(|alone| alone.given == Some(origin)) {
            (alone.trying, alone.given) = (None, None);
            alone.left = alone.left.saturating_sub(1);
        }
    }

    /// Gives the stage the next record of each place that waits for it.
    pub(crate) async fn feed_alone(&mut self) -> Result<(), StageError> {
        let free = |alone: &Alone| alone.given.is_none();
        let places: Vec<TopicPartition> =
            self.alone.iter().filter(|(_, alone)| free(alone)).map(|(&place, _)| place).collect();
        for place in places {
            self.feed(place).await?;
        }
        Ok(())
    }

    async fn feed(&mut self, place: TopicPartition) -> Result<(), StageError> {
        let Some(alone) = self.alone.get_mut(&place) else { return Ok(()) };
        if alone.left == 0 {
            let waiting = std::mem::take(&mut alone.waiting);
            self.alone.remove(&place);
            let full = self.served.budget().paused();
            self.adjust(place, full)?;
            return self.records(waiting.into());
        }
        let Some(offset) = alone.waiting.front().filter(|record| !is_claim(record)).map(|record| record.offset) else {
            // Claims complete at once.
            let claim = alone.waiting.pop_front();
            return self.take_claim(claim);
        };
        if !alone.is_culprit(offset) {
            // Durable before the stage sees the record: who finds this at a start knows the suspect.
            alone.trying = Some(offset);
            let point = self.served.commit_point(place);
            if !self.commit(point.into_iter().collect()).await? {
                return Ok(());
            }
            self.now = self.clock.now();
        }
        let Some(alone) = self.alone.get_mut(&place) else { return Ok(()) };
        let Some(record) = alone.waiting.pop_front() else { return Ok(()) };
        let Delivery::Taken(origin) = self.served.deliver(&record) else { return Ok(()) };
        alone.given = Some(origin);
        if alone.is_culprit(offset) {
            self.reject(origin, "it ended its reader three times when it was the only record in work".to_owned());
            return Ok(());
        }
        self.receive(vec![(origin, record)])
    }

    fn take_claim(&mut self, claim: Option<Delivered>) -> Result<(), StageError> {
        if let Some(Delivery::Taken(origin)) = claim.map(|claim| self.served.deliver(&claim)) {
            self.complete(origin);
        }
        Ok(())
    }
}
