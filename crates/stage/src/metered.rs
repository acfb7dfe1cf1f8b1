//! CPU time by service, for a process that runs several.

use std::future::poll_fn;

use prometheus::Counter;
use rustix::time::{ClockId, clock_gettime};

/// Accumulates the CPU time of one service. Cheap to clone; clones share the sum.
#[derive(Debug, Clone)]
pub struct CpuMeter(Counter);

impl CpuMeter {
    /// Creates a meter that adds seconds to `counter`.
    #[must_use]
    pub fn new(counter: Counter) -> Self {
        Self(counter)
    }

    /// Returns the accumulated seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.get()
    }

    /// Runs `work` on this thread and adds its CPU time: for closures on blocking threads.
    pub fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = thread_cpu_seconds();
        let result = work();
        // The clock of a thread never goes back, but the counter must not depend on that.
        self.0.inc_by((thread_cpu_seconds() - begun).max(0.0));
        result
    }

    /// Wraps a future so that the CPU time of its polls is added. Costs two readings of the thread clock per poll, about
    /// half a microsecond.
    pub fn wrap<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let (meter, mut future) = (self.clone(), Box::pin(future));
        poll_fn(move |context| meter.measure(|| future.as_mut().poll(context)))
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds of CPU time, to the microsecond for 200 years")]
fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Works until the thread has used `seconds` of CPU time.
    fn burn(seconds: f64) {
        let end = thread_cpu_seconds() + seconds;
        while thread_cpu_seconds() < end {
            black_box(0);
        }
    }

    #[tokio::test]
    async fn the_polls_of_a_future_are_measured_and_its_waits_are_not() {
        let meter = CpuMeter::new(Counter::new("cpu_seconds_total", "CPU").unwrap());
        let future = meter.wrap(async {
            burn(0.02);
            tokio::task::yield_now().await;
            burn(0.02);
        });
        burn(0.05);
        future.await;
        assert!(meter.seconds() >= 0.04, "{}", meter.seconds());
        let before = meter.seconds();
        burn(0.01);
        assert!((meter.seconds() - before).abs() < f64::EPSILON, "others are not charged");
    }
}
