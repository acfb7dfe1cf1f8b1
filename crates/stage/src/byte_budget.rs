//! A byte budget for the work of a service outside its loop: bodies being read, pages being extracted, and their
//! results until these are durable.
//!
//! A [`Reservation`] ends when it is dropped, so a job that is cancelled or panics leaks nothing.
//! [`Reservation::attach`] ties it to the bytes that it was made for: it ends when their last handle is dropped, in
//! whatever queue, plan or append that is.
//!
//! Work that grows step by step could deadlock: every job holds a part and waits for the rest. Therefore one job at a
//! time, the longest-waiting one, may exceed the budget ([`Reservation::grow`]). At most the budget plus the needs of
//! that one job are in use at any time.

use std::sync::Arc;

use bytes::Bytes;
use prometheus::IntGauge;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// A byte budget. Clones share it.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    bytes: usize,
    free: Arc<Semaphore>,
    /// Held by the one reservation that may exceed the budget; granted in order of request.
    overdraft: Arc<Mutex<()>>,
    in_use: IntGauge,
}

impl ByteBudget {
    /// Creates a budget of `bytes`; `in_use` reports the reserved bytes.
    #[must_use]
    pub fn new(bytes: usize, in_use: IntGauge) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Self { bytes, free: Arc::new(Semaphore::new(bytes)), overdraft: Arc::default(), in_use }
    }

    /// Returns the budget in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if `bytes` could be reserved now.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.free.available_permits() >= bytes
    }

    /// Returns an empty reservation that can grow.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), permits: None, overdrawn: 0, overdraft: None, has_waited: false }
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
        let wanted = permits(bytes.min(self.bytes));
        if let Ok(permits) = Arc::clone(&self.free).acquire_many_owned(wanted).await {
            reservation.add(permits);
        }
        reservation
    }
}

/// Bytes that stay reserved until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: ByteBudget,
    permits: Option<OwnedSemaphorePermit>,
    /// Bytes beyond the budget.
    overdrawn: usize,
    overdraft: Option<Arc<OwnedMutexGuard<()>>>,
    has_waited: bool,
}

impl Reservation {
    /// Returns the reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.within() + self.overdrawn
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
            let free = Arc::clone(&self.budget.free).acquire_many_owned(permits(more));
            let overdraft = Arc::clone(&self.budget.overdraft).lock_owned();
            tokio::select! {
                biased;
                Ok(permits) = free => return self.add(permits),
                guard = overdraft => self.overdraft = Some(Arc::new(guard)),
            }
        }
        self.overdraw(more);
    }

    /// Sets the reservation to exactly `bytes`. Missing bytes are reserved immediately, beyond the budget if necessary:
    /// for bytes that are already in memory.
    pub fn set(&mut self, bytes: usize) {
        let missing = bytes.saturating_sub(self.bytes());
        if missing > 0 && !self.take_free(missing) {
            self.overdraw(missing);
        }
        let surplus = self.bytes().saturating_sub(bytes);
        drop(self.split(surplus));
    }

    /// Splits off `bytes`, or everything if that is less. Bytes beyond the budget are split off first.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let overdrawn = bytes.min(self.overdrawn);
        self.overdrawn -= overdrawn;
        let within = (bytes - overdrawn).min(self.within());
        let permits = self.permits.as_mut().and_then(|permits| permits.split(within));
        let overdraft = self.overdraft.clone().filter(|_| overdrawn > 0);
        if self.overdrawn == 0 {
            self.overdraft = None;
        }
        Self { budget: self.budget.clone(), permits, overdrawn, overdraft, has_waited: false }
    }

    /// Ties the reservation to `bytes`: it ends when their last handle is dropped.
    #[must_use]
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Attached { bytes, _reservation: self })
    }

    fn within(&self) -> usize {
        self.permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn take_free(&mut self, bytes: usize) -> bool {
        let taken = Arc::clone(&self.budget.free).try_acquire_many_owned(permits(bytes));
        taken.map(|permits| self.add(permits)).is_ok()
    }

    fn add(&mut self, permits: OwnedSemaphorePermit) {
        self.budget.in_use.add(signed(permits.num_permits()));
        match &mut self.permits {
            Some(held) => held.merge(permits),
            none => *none = Some(permits),
        }
    }

    fn overdraw(&mut self, bytes: usize) {
        self.budget.in_use.add(signed(bytes));
        self.overdrawn += bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.in_use.sub(signed(self.bytes()));
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

/// Converts bytes to permits, one per byte. At most 4 GiB at a time, which exceeds any body or page.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
