//! Bound of the connections that are kept for further requests, over all origins. Decisions are pure; time is a value.
//!
//! The library bounds connections by origin alone. An origin may keep as many as it has had requests in flight, as far as
//! there was room for them, until none can be open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use url::{Position, Url};

/// Interval at which the room of origins without connections is released, while there is no other.
const RELEASED_EVERY: Duration = Duration::from_secs(1);

/// Use of a connection after its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// Kept for further requests to the origin.
    Kept,
    Closed,
}

#[derive(Debug)]
struct Room {
    /// Number of requests in flight that keep their connections.
    in_flight: usize,
    /// Number of connections that may be kept.
    kept: usize,
    /// Time from which none is open, unless a request is in flight.
    quiet: Instant,
    has_connected: bool,
}

/// Room for connections that are kept.
#[derive(Debug)]
struct Rooms {
    origins: HashMap<Box<str>, Room>,
    /// Number of connections that may be kept, over all origins, and their maximum.
    kept: usize,
    max: usize,
    /// Time for which a connection may be open after its last request.
    open: Duration,
    released: Option<Instant>,
}

impl Rooms {
    fn new(max: usize, open: Duration) -> Self {
        Self { origins: HashMap::new(), kept: 0, max, open, released: None }
    }

    /// Notes the start of a request.
    fn start(&mut self, origin: &str, now: Instant) -> Reuse {
        if self.kept >= self.max {
            self.release(now);
        }
        let has_room = self.kept < self.max;
        match self.origins.get_mut(origin) {
            Some(room) if room.in_flight < room.kept => room.in_flight += 1,
            Some(room) if has_room => {
                (room.in_flight, room.kept) = (room.in_flight + 1, room.kept + 1);
                self.kept += 1;
            }
            None if has_room => {
                self.origins.insert(origin.into(), Room { in_flight: 1, kept: 1, quiet: now, has_connected: false });
                self.kept += 1;
            }
            _ => return Reuse::Closed,
        }
        Reuse::Kept
    }

    /// Notes the end of a request that keeps its connection; `refused`: none was established.
    fn end(&mut self, origin: &str, refused: bool, now: Instant) {
        let Some(room) = self.origins.get_mut(origin) else { return };
        (room.in_flight, room.quiet) = (room.in_flight.saturating_sub(1), now + self.open);
        room.has_connected |= !refused;
        if room.in_flight == 0 && !room.has_connected {
            self.kept -= room.kept;
            self.origins.remove(origin);
        }
    }

    /// Removes origins without connections, at intervals.
    fn release(&mut self, now: Instant) {
        if self.released.is_none_or(|at| now.saturating_duration_since(at) >= RELEASED_EVERY) {
            self.released = Some(now);
            self.origins.retain(|_, room| room.in_flight > 0 || now < room.quiet);
            self.kept = self.origins.values().map(|room| room.kept).sum();
        }
    }
}

/// Room for connections that are kept, of one client. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct IdleConnections(Arc<Mutex<Rooms>>);

impl IdleConnections {
    /// `max`: maximum number of connections that are kept; `open`: time for which one may be open after its last request.
    pub(super) fn new(max: usize, open: Duration) -> Self {
        Self(Arc::new(Mutex::new(Rooms::new(max, open))))
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the start of a request.
    pub(super) fn start(&self, url: &Url) -> Connection {
        let origin = &url[..Position::BeforePath];
        let reuse = self.rooms().start(origin, Instant::now());
        Connection { idle: self.clone(), origin: origin.to_owned(), reuse, is_refused: false }
    }
}

/// The connection of a request, until it is dropped.
pub(super) struct Connection {
    idle: IdleConnections,
    origin: String,
    pub(super) reuse: Reuse,
    /// Whether no connection was established.
    pub(super) is_refused: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.reuse == Reuse::Kept {
            self.idle.rooms().end(&self.origin, self.is_refused, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Duration = Duration::from_secs(15);

    fn start(idle: &mut Rooms, origins: &[&str], now: Instant) -> Vec<bool> {
        origins.iter().map(|origin| idle.start(origin, now) == Reuse::Kept).collect()
    }

    #[test]
    fn the_number_of_kept_connections_is_bounded_over_all_origins_until_those_of_some_are_closed() {
        let (mut idle, begun) = (Rooms::new(3, OPEN), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(start(&mut idle, &["a", "a", "b"], begun), [true; 3]);
        assert_eq!(start(&mut idle, &["a", "b", "c"], begun), [false; 3]);
        for origin in ["a", "a", "b"] {
            idle.end(origin, false, after(1));
        }
        // Each origin has the room that it had.
        assert_eq!(start(&mut idle, &["c", "b", "a", "a", "a"], after(15)), [false, true, true, true, false]);
        for origin in ["b", "a", "a"] {
            idle.end(origin, false, after(15));
        }
        assert_eq!(start(&mut idle, &["b", "c"], after(29)), [true, false], "`a` may still have two");
        assert_eq!(start(&mut idle, &["c", "c", "c"], after(30)), [true, true, false], "one is in use by `b`");
        assert_eq!(idle.kept, 3);
    }

    #[test]
    fn origins_that_refuse_connections_take_no_room() {
        let (mut idle, now) = (Rooms::new(1, OPEN), Instant::now());
        for refused in ["a", "b", "c"] {
            assert_eq!(idle.start(refused, now), Reuse::Kept);
            idle.end(refused, true, now);
        }
        assert_eq!(idle.start("d", now), Reuse::Kept);
        idle.end("d", false, now);
        assert_eq!(idle.start("d", now), Reuse::Kept);
        idle.end("d", true, now);
        assert_eq!(start(&mut idle, &["d", "e"], now), [true, false], "one may be open of before");
    }

    #[test]
    fn origins_are_no_more_than_kept_connections() {
        let (mut idle, now) = (Rooms::new(2, OPEN), Instant::now());
        for number in 0..100 {
            let origin = number.to_string();
            if idle.start(&origin, now) == Reuse::Kept {
                idle.end(&origin, false, now);
            }
        }
        assert_eq!((idle.origins.len(), idle.kept), (2, 2));
    }
}
