//! Rate of a token: requests, or the URLs of a batch. Pure.
//!
//! A leaky bucket: each request adds its cost to a debt, which shrinks at the rate. A request is admitted if the debt is then
//! that of at most a second. The further URLs of a batch are added afterwards, so that the following requests wait for them.

/// Debt of a token.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Allowance {
    debt: f64,
    /// Time of the debt, in seconds.
    at: f64,
}

impl Allowance {
    /// Adds the first unit of a request, or returns the number of seconds until one is admitted. `rate` is at least 1 per second.
    pub(crate) fn admit(&mut self, rate: f64, now: f64) -> Result<(), u64> {
        let left = (self.debt - rate * (now - self.at).max(0.0)).max(0.0);
        let above = left + 1.0 - rate;
        if above > 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive, and far below 2^53"
            )]
            return Err((above / rate).ceil() as u64);
        }
        *self = Self { debt: left + 1.0, at: now };
        Ok(())
    }

    /// Adds further units of a request that was admitted.
    pub(crate) fn add(&mut self, units: f64) {
        self.debt += units;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_second_of_requests_is_admitted_at_once_and_then_the_rate() {
        let mut allowance = Allowance::default();
        let admitted = (0..50).filter(|_| allowance.admit(10.0, 0.0).is_ok()).count();
        assert_eq!(admitted, 10);
        assert_eq!(allowance.admit(10.0, 0.0), Err(1));
        assert_eq!((allowance.admit(10.0, 0.11), allowance.admit(10.0, 0.11)), (Ok(()), Err(1)));
    }

    #[test]
    fn a_batch_is_paid_for_by_those_that_follow() {
        let mut allowance = Allowance::default();
        allowance.admit(10.0, 0.0).unwrap();
        allowance.add(99.0);
        assert_eq!(allowance.admit(10.0, 0.0), Err(10));
        assert_eq!((allowance.admit(10.0, 8.9), allowance.admit(10.0, 9.1)), (Err(1), Ok(())));
    }

    proptest! {
        #[test]
        fn over_any_time_no_more_is_admitted_than_the_rate_and_a_second(
            rate in 1_u32..100, waits in proptest::collection::vec(0_u32..500, 1..200)
        ) {
            let (mut allowance, mut now, mut admitted) = (Allowance::default(), 0.0, 0.0);
            for wait in waits {
                now += f64::from(wait) / 1000.0;
                if allowance.admit(f64::from(rate), now).is_ok() {
                    admitted += 1.0;
                }
                prop_assert!(admitted <= f64::from(rate) * (now + 1.0) + 1e-6);
            }
        }
    }
}
