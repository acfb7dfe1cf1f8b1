//! A byte budget for the work of a service outside its loop: bodies being read, pages being extracted, and their
//! results until these are durable.
//!
//! A [`Reservation`] ends when it is dropped, so a job that is cancelled or panics leaks nothing.
//! [`Reservation::attach`] ties it to the bytes that it was made for: it ends when their last handle is dropped, in
//! whatever queue, plan or append that is.
//!
//! Bytes that are in memory already are reserved at once, even beyond the budget ([`Reservation::set`]). Bytes in use
//! beyond the budget are a debt: released bytes pay it first, and until it is paid no byte is free. If jobs take more
//! than they reserved, the budget is exceeded at most by the needs of those that run at the same time.
//!
//! Work that grows step by step could deadlock: every job holds a part and waits for the rest. Therefore one job at a
//! time, the longest-waiting one, may exceed the budget ([`Reservation::grow`]), even if there is a debt. If jobs take
//! no more than they reserved, at most the budget plus the needs of that one job are in use at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use prometheus::IntGauge;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, Semaphore};

/// A byte budget. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    bytes: usize,
    /// Bytes in use; those beyond the budget are the debt.
    used: Arc<AtomicUsize>,
    /// Notified when bytes are released.
    released: Arc<Notify>,
    /// One permit, held by the request that gets the next free bytes; granted in order of request.
    turn: Arc<Semaphore>,
    /// Held by the one reservation that may exceed the budget; granted in order of request.
    overdraft: Arc<Mutex<()>>,
    in_use: IntGauge,
}

impl ByteBudget {
    /// Creates a budget of `bytes`; `in_use` reports the reserved bytes.
    #[must_use]
    pub fn new(bytes: usize, in_use: IntGauge) -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { bytes, used: Arc::default(), released: Arc::default(), turn, overdraft: Arc::default(), in_use }
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if `bytes` could be reserved now.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        !self.is_awaited() && self.within(self.used.load(Ordering::Acquire), bytes).is_some()
    }

    /// Returns an empty reservation that can grow.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0, overdraft: None, has_waited: false }
    }

    /// Reserves `bytes`, or the whole budget if that is less; returns `None` if this would require waiting.
    #[must_use]
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.reservation();
        reservation.take_free(bytes.min(self.bytes)).then_some(reservation)
    }

    /// Reserves `bytes`, or the whole budget if that is less, waiting until they are free. Never exceeds the budget: a
    /// caller that waits here must not hold anything that others wait for.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        let mut reservation = self.reservation();
        let wanted = bytes.min(self.bytes);
        self.take_in_turn(wanted).await;
        reservation.bytes = wanted;
        reservation
    }

    /// Returns `true` while a request waits for free bytes: later ones must not overtake it.
    fn is_awaited(&self) -> bool {
        self.turn.available_permits() == 0
    }

    /// Returns the sum, if it is within the budget.
    fn within(&self, used: usize, bytes: usize) -> Option<usize> {
        used.checked_add(bytes).filter(|&sum| sum <= self.bytes)
    }

    /// Takes `bytes` if they are free.
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| self.within(used, bytes);
        let taken = self.used.try_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok();
        if taken {
            self.in_use.add(signed(bytes));
        }
        taken
    }

    /// Takes `bytes` once they are free, in order of request.
    async fn take_in_turn(&self, bytes: usize) {
        // The semaphore is never closed; if it were, only the order would be lost.
        let _turn = self.turn.acquire().await;
        while !self.take(bytes) {
            self.released.notified().await;
        }
    }

    fn release(&self, bytes: usize) {
        self.in_use.sub(signed(bytes));
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        self.released.notify_one();
    }
}

/// Bytes that stay reserved until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    bytes: usize,
    overdraft: Option<Arc<OwnedMutexGuard<()>>>,
    has_waited: bool,
}

impl Reservation {
    /// Returns the reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if [`Self::grow`] has ever had to wait.
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Reserves `more` bytes. Exceeds the budget if necessary, unless another reservation already does; then waits
    /// until the bytes are free, or until it is the next to exceed: such reservations take turns, each starting when
    /// the previous one has ended or shrunk.
    pub async fn grow(&mut self, more: usize) {
        if self.take_free(more) {
            return;
        }
        if self.overdraft.is_none() {
            self.overdraft = Arc::clone(&self.budget.overdraft).try_lock_owned().ok().map(Arc::new);
        }
        if self.overdraft.is_none() {
            self.has_waited = true;
            let overdraft = Arc::clone(&self.budget.overdraft).lock_owned();
            tokio::select! {
                biased;
                () = self.budget.take_in_turn(more) => {
                    self.bytes += more;
                    return;
                }
                guard = overdraft => self.overdraft = Some(Arc::new(guard)),
            }
        }
        self.overdraw(more);
    }

    /// Sets the reservation to exactly `bytes`. Missing bytes are reserved immediately, beyond the budget if necessary:
    /// for bytes that are already in memory.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(missing) => self.overdraw(missing),
            None => drop(self.split(self.bytes - bytes)),
        }
        if self.budget.used.load(Ordering::Acquire) <= self.budget.bytes {
            self.overdraft = None;
        }
    }

    /// Splits off `bytes`, or everything if that is less.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes, overdraft: self.overdraft.clone(), has_waited: false }
    }

    /// Ties the reservation to `bytes`: it ends when their last handle is dropped.
    #[must_use]
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Attached { bytes, _reservation: self })
    }

    /// Reserves `bytes` if they are free and no other request waits.
    fn take_free(&mut self, bytes: usize) -> bool {
        let taken = !self.budget.is_awaited() && self.budget.take(bytes);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Reserves `bytes`, whether or not they are free.
    fn overdraw(&mut self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Ordering::AcqRel);
        self.budget.in_use.add(signed(bytes));
        self.bytes += bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// Bytes with their reservation.
struct Attached {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Attached {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
