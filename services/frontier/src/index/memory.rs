//! Index in memory, for tests and simulations, and where a restart may replay all queued URLs.

use std::collections::{BTreeMap, HashMap};

use orbweaver_log::Offset;
use orbweaver_messages::{Millis, Waiting};
use orbweaver_stage::Position;
use orbweaver_url::Fingerprint;

use super::{Index, IndexError, Place, Rank, SiteId};

/// Index in memory.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    places: HashMap<Fingerprint, Place>,
    records: HashMap<Offset, Box<Waiting>>,
    queued: BTreeMap<(SiteId, Rank), Place>,
    delayed: BTreeMap<(Millis, SiteId, Rank), (Fingerprint, Place)>,
    outdated: BTreeMap<Fingerprint, Offset>,
    position: Option<Position>,
}

impl MemoryIndex {
    fn take_out(&mut self, place: &Place) {
        if place.is_delayed() {
            self.delayed.remove(&(place.not_before_ms, place.site, place.rank()));
        } else {
            self.queued.remove(&(place.site, place.rank()));
        }
    }

    fn put_in(&mut self, fingerprint: Fingerprint, place: Place) {
        self.places.insert(fingerprint, place);
        if place.is_delayed() {
            self.delayed.insert((place.not_before_ms, place.site, place.rank()), (fingerprint, place));
        } else {
            self.queued.insert((place.site, place.rank()), place);
        }
    }
}

impl Index for MemoryIndex {
    fn place(&mut self, fingerprint: Fingerprint) -> Result<Option<Place>, IndexError> {
        Ok(self.places.get(&fingerprint).copied())
    }

    fn waiting(&mut self, offset: Offset) -> Result<Waiting, IndexError> {
        let damaged =
            || IndexError::Damaged { path: "memory".to_owned(), reason: format!("no record, offset {offset}") };
        self.records.get(&offset).map(|waiting| Waiting::clone(waiting)).ok_or_else(damaged)
    }

    fn replace(&mut self, fingerprint: Fingerprint, old: Option<Place>, new: Option<(Place, &Waiting)>) {
        if let Some(old) = old {
            self.take_out(&old);
            self.records.remove(&old.offset);
            self.places.remove(&fingerprint);
        }
        if let Some((place, waiting)) = new {
            self.put_in(fingerprint, place);
            self.records.insert(place.offset, Box::new(waiting.clone()));
        }
    }

    fn release(&mut self, fingerprint: Fingerprint, place: Place) {
        self.take_out(&place);
        self.put_in(fingerprint, place.queued());
    }

    fn queued(&mut self, site: SiteId, from: Rank, most: usize) -> Result<Vec<Rank>, IndexError> {
        let behind = self.queued.range((site, from)..=(site, (u16::MAX, Offset::MAX)));
        Ok(behind.take(most).map(|((_, rank), _)| *rank).collect())
    }

    fn delayed(&mut self, until_ms: Millis, most: usize) -> Result<Vec<(Fingerprint, Place)>, IndexError> {
        let until = (until_ms, SiteId(u64::MAX), (u16::MAX, Offset::MAX));
        Ok(self.delayed.range(..=until).take(most).map(|(_, delayed)| *delayed).collect())
    }

    fn each(&mut self, each: &mut dyn FnMut(Place)) -> Result<(), IndexError> {
        self.queued.values().for_each(|place| each(*place));
        self.delayed.values().for_each(|(_, place)| each(*place));
        Ok(())
    }

    fn mark(&mut self, fingerprint: Fingerprint, since: Option<Offset>) {
        match since {
            Some(since) => {
                self.outdated.entry(fingerprint).or_insert(since);
            }
            None => {
                self.outdated.remove(&fingerprint);
            }
        }
    }

    fn outdated(&self) -> &BTreeMap<Fingerprint, Offset> {
        &self.outdated
    }

    fn applied(&mut self, position: Position) -> Result<(), IndexError> {
        self.position = Some(position);
        Ok(())
    }

    fn position(&self) -> Option<Position> {
        self.position
    }

    fn write(&mut self) -> Result<(), IndexError> {
        Ok(())
    }
}
