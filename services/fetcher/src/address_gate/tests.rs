use proptest::prelude::*;

use super::*;

const NONE: [SiteName; 0] = [];

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn site(number: usize) -> SiteName {
    format!("site{number}").into()
}

fn gate(at_once: usize, gap_ms: u64) -> AddressGate {
    AddressGate::new(AddressLimits { at_once, gap_ms })
}

fn called(gate: &mut AddressGate, now: Millis) -> Vec<SiteName> {
    gate.poll(now);
    std::iter::from_fn(|| gate.next_called()).collect()
}

#[test]
fn sites_are_called_in_the_order_in_which_they_asked() {
    let mut gate = gate(2, 0);
    let starts: Vec<_> = (0..5).map(|number| gate.request(address(1), &site(number), 0)).collect();
    assert_eq!(starts, [true, true, false, false, false]);
    assert!(gate.request(address(2), &site(9), 0), "each address has its own places");
    assert_eq!((called(&mut gate, 1), gate.waiting()), (vec![], 3));
    gate.ended(address(1), 1);
    assert_eq!(called(&mut gate, 1), [site(2)]);
    // The place of a site that was called is not given to another one.
    assert!(!gate.request(address(1), &site(0), 1));
    assert!(gate.request(address(1), &site(2), 1));
    gate.ended(address(1), 2);
    gate.ended(address(1), 2);
    assert_eq!(called(&mut gate, 2), [site(3), site(4)]);
    gate.withdraw(address(1), &site(3), 2);
    assert_eq!((called(&mut gate, 2), gate.waiting()), (vec![site(0)], 0));
}

#[test]
fn a_site_that_withdraws_waits_no_longer() {
    let mut gate = gate(1, 0);
    assert!(gate.request(address(1), &site(0), 0));
    assert!(!gate.request(address(1), &site(1), 0) && !gate.request(address(1), &site(2), 0));
    gate.withdraw(address(1), &site(1), 0);
    gate.ended(address(1), 1);
    assert_eq!(called(&mut gate, 1), [site(2)]);
    gate.withdraw(address(1), &site(2), 1);
    assert!(gate.addresses.is_empty() && gate.waiting() == 0);
}

#[test]
fn a_gap_separates_the_starts_of_requests_and_the_address_is_forgotten_after_it() {
    let mut gate = gate(usize::MAX, 100);
    assert!(gate.request(address(1), &site(0), 1000));
    assert!(!gate.request(address(1), &site(1), 1000) && !gate.request(address(1), &site(2), 1050));
    assert_eq!((called(&mut gate, 1099), gate.next_ms()), (vec![], Some(1100)));
    assert_eq!(called(&mut gate, 1100), [site(1)]);
    assert_eq!(called(&mut gate, 1200), NONE, "the site that was called has not sent its request yet");
    assert!(gate.request(address(1), &site(1), 1250));
    assert_eq!(called(&mut gate, 1349), NONE);
    assert_eq!(called(&mut gate, 1350), [site(2)]);
    assert!(gate.request(address(1), &site(2), 1350));
    (0..3).for_each(|_| gate.ended(address(1), 1360));
    assert_eq!((called(&mut gate, 1449), gate.addresses.len()), (vec![], 1));
    assert_eq!((called(&mut gate, 1450), gate.addresses.len()), (vec![], 0));
}

#[test]
fn refusals_of_several_sites_cause_a_gap_which_is_forgiven() {
    let mut gate = gate(32, 0);
    for number in 0..3 {
        assert!(gate.request(address(1), &site(number), 0));
        gate.refused(address(1), &site(number), 0);
        gate.ended(address(1), 0);
    }
    assert!(gate.request(address(2), &site(9), 0) && gate.request(address(2), &site(8), 0), "of that address alone");
    assert!(!gate.request(address(1), &site(4), 249) && !gate.request(address(1), &site(5), 249));
    assert_eq!(called(&mut gate, 250), [site(4)]);
    assert!(gate.request(address(1), &site(4), 250));
    assert_eq!(called(&mut gate, 500), [site(5)]);
    assert!(gate.request(address(1), &site(5), 500));
    (0..2).for_each(|_| gate.ended(address(1), 600));
    (0..2).for_each(|_| gate.ended(address(2), 600));
    assert_eq!(called(&mut gate, 60_000), NONE);
    let forgiven = gate.next_ms().unwrap();
    assert_eq!(forgiven, 300_000);
    assert!(gate.request(address(1), &site(4), forgiven) && gate.request(address(1), &site(5), forgiven));
    (0..2).for_each(|_| gate.ended(address(1), forgiven));
    assert_eq!((called(&mut gate, forgiven), gate.addresses.len()), (vec![], 0));
}

#[test]
fn a_lower_limit_applies_to_the_next_requests_and_a_higher_one_at_once() {
    let mut gate = gate(3, 0);
    (0..3).for_each(|number| assert!(gate.request(address(1), &site(number), 0)));
    gate.set_at_once(0);
    assert!(!gate.request(address(1), &site(3), 0));
    (0..2).for_each(|_| gate.ended(address(1), 1));
    assert_eq!(called(&mut gate, 1), NONE, "one in flight is all that is allowed");
    gate.set_at_once(2);
    assert_eq!(called(&mut gate, 1), [site(3)]);
    gate.set_at_once(1);
    assert!(!gate.request(address(1), &site(3), 1), "it was called, and the limit is lower by now");
    assert!(!gate.request(address(1), &site(4), 1));
    gate.ended(address(1), 2);
    assert_eq!(called(&mut gate, 2), [site(3)], "it keeps its place");
}

#[test]
fn a_clock_that_steps_back_holds_no_address_up_for_longer_than_its_gap() {
    let mut gate = gate(usize::MAX, 1000);
    assert!(gate.request(address(1), &site(0), 3_600_000));
    assert!(!gate.request(address(1), &site(1), 3_600_000));
    assert_eq!(called(&mut gate, 3_600_500), NONE);
    assert_eq!((called(&mut gate, 0), gate.next_ms()), (vec![], Some(1000)));
    assert_eq!(called(&mut gate, 1000), [site(1)]);
}

/// A step of a test: a site requests a place or withdraws, a request ends, or the limit changes.
#[derive(Debug, Clone)]
enum Op {
    Request(usize),
    Withdraw(usize),
    End(usize, bool),
    Limit(usize),
}

fn ops() -> impl Strategy<Value = Vec<(Millis, Op)>> {
    let op = prop_oneof![
        6 => (0..12_usize).prop_map(Op::Request),
        1 => (0..12_usize).prop_map(Op::Withdraw),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(index, refused)| Op::End(index, refused)),
        1 => (1..5_usize).prop_map(Op::Limit),
    ];
    prop::collection::vec((0..200_i64, op), 1..200)
}

/// A world around the gate: twelve sites at three addresses, each with one request at the gate at a time.
struct World {
    gate: AddressGate,
    now: Millis,
    at_once: usize,
    gap_ms: Millis,
    in_flight: Vec<(IpAddr, usize)>,
    started: HashMap<IpAddr, Millis>,
    /// Sites that wait, in the order of their requests.
    waiting: VecDeque<usize>,
}

impl World {
    fn address(number: usize) -> IpAddr {
        address(u8::try_from(number % 3).unwrap())
    }

    fn start(&mut self, number: usize) {
        let at = Self::address(number);
        let last = self.started.insert(at, self.now);
        assert!(last.is_none_or(|last| self.now - last >= self.gap_ms), "the gap since {last:?} at {}", self.now);
        self.in_flight.push((at, number));
        let at_once = self.in_flight.iter().filter(|(of, _)| *of == at).count();
        assert!(at_once <= self.at_once, "{at_once} at once");
    }

    /// Sends the requests of all sites that are called.
    fn follow_calls(&mut self) {
        self.gate.poll(self.now);
        while let Some(name) = self.gate.next_called() {
            let number = (0..12).find(|number| site(*number) == name).unwrap();
            let same = |other: &usize| Self::address(*other) == Self::address(number);
            let first = self.waiting.iter().position(same).unwrap();
            assert_eq!(self.waiting.remove(first), Some(number), "in the order of their requests");
            assert!(self.gate.request(Self::address(number), &name, self.now));
            self.start(number);
        }
    }

    /// Asserts that each site that waits does so for a reason.
    fn check(&self) {
        assert_eq!(self.gate.waiting(), self.waiting.len());
        for number in &self.waiting {
            let at = Self::address(*number);
            let full = self.in_flight.iter().filter(|(of, _)| *of == at).count() >= self.at_once;
            let timer = self.gate.timers.iter().any(|Reverse((_, of))| *of == at);
            assert!(full || timer, "site {number} waits for nothing");
        }
    }

    fn perform(&mut self, op: &Op) {
        match *op {
            Op::Request(number) if !self.waiting.contains(&number) => {
                if self.gate.request(Self::address(number), &site(number), self.now) {
                    let same = |other: &usize| Self::address(*other) == Self::address(number);
                    assert!(!self.waiting.iter().any(same), "before others that wait");
                    self.start(number);
                } else {
                    self.waiting.push_back(number);
                }
            }
            Op::Withdraw(number) => {
                if let Some(index) = self.waiting.iter().position(|waiting| *waiting == number) {
                    self.waiting.remove(index);
                    self.gate.withdraw(Self::address(number), &site(number), self.now);
                }
            }
            Op::End(index, refused) if !self.in_flight.is_empty() => {
                let (at, number) = self.in_flight.swap_remove(index % self.in_flight.len());
                if refused {
                    self.gate.refused(at, &site(number), self.now);
                }
                self.gate.ended(at, self.now);
            }
            Op::Limit(at_once) => {
                // Requests in flight beyond a lower limit would fail the check at the next start, as they should.
                self.at_once = at_once;
                self.gate.set_at_once(at_once);
            }
            Op::Request(_) | Op::End(..) => {}
        }
    }
}

proptest! {
    #[test]
    fn no_address_gets_more_requests_than_it_may_and_no_site_waits_in_vain(
        (at_once, gap_ms, ops) in (1..5_usize, prop_oneof![Just(0), 1..300_i64], ops()),
    ) {
        let gate = gate(at_once, gap_ms.unsigned_abs());
        let (in_flight, started, waiting) = (vec![], HashMap::new(), VecDeque::new());
        let mut world = World { gate, now: 0, at_once, gap_ms, in_flight, started, waiting };
        for (after_ms, op) in &ops {
            world.now += after_ms;
            world.follow_calls();
            world.perform(op);
            world.follow_calls();
            world.check();
        }
        // With time every request ends, every site is served, and nothing is left.
        for _ in 0..1000 {
            world.perform(&Op::End(0, false));
            world.follow_calls();
            world.now = world.gate.next_ms().map_or(world.now, |at| at.max(world.now));
            world.follow_calls();
        }
        prop_assert!(world.waiting.is_empty() && world.in_flight.is_empty());
        prop_assert!(world.gate.addresses.is_empty(), "{:?}", world.gate.addresses);
    }
}
