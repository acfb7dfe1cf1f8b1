//! Hosts that do not exist, as many as a hostile page may link to.

use super::*;

const HOSTS: u64 = 100_000;
/// Hosts whose dispatches arrive at once.
const BATCH: u64 = 100;
/// Time between two batches, in milliseconds.
const BATCH_MS: Millis = 100;
/// Interval of each site, in milliseconds.
const INTERVAL_MS: u64 = 1000;
/// Bytes of the cache of robots.txt files per authority without a file.
const ENTRY_BYTES: usize = 256;

#[test]
fn hosts_that_do_not_exist_are_known_for_an_interval_and_in_a_bounded_cache_alone() {
    let mut around =
        Surroundings::new(FetcherConfig { robots_cache_bytes: 100 * ENTRY_BYTES, ..FetcherConfig::default() });
    let [mut sites, mut addresses, mut cached] = [0; 3];
    for first in (0..HOSTS).step_by(BATCH as usize) {
        for number in first..first + BATCH {
            let host = format!("h{number}.example");
            around.client.at(&host, Err(FetchError::UnknownHost));
            around.deliver(&around.ready_every(INTERVAL_MS, &format!("https://{host}/"), number));
        }
        around.settle();
        sites = sites.max(around.stage.gates.sites.len());
        addresses = addresses.max(around.stage.addresses.known());
        cached = cached.max(around.stage.robots.len());
        around.pass(BATCH_MS);
    }
    // A site is known for the interval after its request. The first ones also wait for one before it, since they may have
    // been requested before the partitions were opened. One batch has just arrived.
    let within = (2 * INTERVAL_MS / BATCH_MS.unsigned_abs() + 1) * BATCH;
    assert!(sites >= BATCH as usize && sites as u64 <= within, "{sites} sites were known at once");
    assert!(addresses as u64 <= within, "the addresses of {addresses} sites were known at once");
    assert_eq!(cached, 100);
    around.pass(2 * Millis::try_from(INTERVAL_MS).unwrap());
    around.assert_all_complete();
    assert_eq!((around.stage.gates.sites.len(), around.stage.addresses.known()), (0, 0));
    assert_eq!(around.asked(), Vec::<String>::new(), "no connection is opened");
    let kinds = around.kinds();
    assert_eq!(kinds.len() as u64, HOSTS);
    assert!(kinds.iter().all(|kind| *kind == some(OutcomeKind::Gone, "dns")), "{:?}", kinds[0]);
}
