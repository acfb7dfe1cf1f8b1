//! Properties of the simulation.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::collections::BTreeSet;

use orbweaver_scale_tests::{
    assign::{Assignor, least, moved, range, sticky},
    chart::grouped,
    records::{Count, add_segment, uncompressed},
    report::{by_instance_id, replaced},
    spread::{Spread, by_owner, by_partition},
    web::{CAPS, Random, Web, name, urls},
};
use orbweaver_url::{SLOTS, Url, site_of};

#[test]
fn the_same_seed_draws_the_same_web_and_another_seed_another() {
    let web = Web::new(200_000, 1);
    assert_eq!(web, Web::new(200_000, 1));
    assert_ne!(web, Web::new(200_000, 2));
    assert!(web.total(0) >= 200_000);
}

#[test]
fn sites_use_all_slots_as_evenly_as_at_random() {
    let sites = &Web::new(100_000_000, 1).loads[CAPS.len() - 1];
    assert_eq!(sites.len(), usize::from(SLOTS));
    assert!(sites.iter().all(|&sites| sites > 0));
    let mean = sites.iter().sum::<u64>() as f64 / sites.len() as f64;
    let variance = sites.iter().map(|&sites| (sites as f64 - mean).powi(2)).sum::<f64>() / sites.len() as f64;
    // Poisson: the variance is the mean.
    assert!((variance / mean - 1.0).abs() < 0.05, "{variance} {mean}");
}

#[test]
fn names_are_distinct_and_each_is_its_own_site() {
    let names: BTreeSet<String> = (0..50_000).map(name).collect();
    assert_eq!(names.len(), 50_000);
    for name in names.iter().step_by(50) {
        let url = Url::parse(&format!("https://www.{name}/")).unwrap();
        assert_eq!(site_of(&url), *name);
    }
}

#[test]
fn sizes_follow_the_tail_and_end_at_the_largest() {
    assert_eq!((urls(0.0), urls(1.0 - 1e-16)), (1, 1_999_999));
    // 10^0.8: about six times fewer sites have ten times the URLs.
    let mut random = Random(1);
    let sizes: Vec<u64> = (0..1_000_000).map(|_| urls(random.unit())).collect();
    let above = |least| sizes.iter().filter(|&&size| size >= least).count() as f64;
    assert!((above(10) / above(100) - 6.31).abs() < 0.2, "{}", above(10) / above(100));
}

#[test]
fn loads_of_slots_partitions_and_instances_have_one_sum() {
    let slots = &Web::new(100_000, 1).loads[1];
    let partitions = by_partition(slots, 4_096);
    let instances = by_owner(&partitions, &range(&by_instance_id(1_000), 4_096), 1_000);
    assert_eq!(slots.iter().sum::<u64>(), instances.iter().sum::<u64>());
    assert_eq!(Spread::of(&[1, 1, 4]), Spread { max: 2.0, p99: 2.0, min: 0.5 });
}

/// Figures of the classes `RangeAssignor` and `UniformAssignor` of Kafka 4.3.0, with 1,000 static members `frontier-N`.
#[test]
fn range_moves_the_partitions_that_the_brokers_move() {
    let (before, joined) = (by_instance_id(1_000), by_instance_id(1_100));
    let rest: Vec<u32> = before.iter().copied().filter(|&member| member != 500).collect();
    for (partitions, stops, join) in [(1_024, 423, 1_023), (4_096, 1_398, 4_080), (16_384, 888, 16_280)] {
        let owners = range(&before, partitions);
        assert_eq!(moved(&owners, &range(&rest, partitions)), stops);
        assert_eq!(moved(&owners, &range(&joined, partitions)), join);
    }
}

#[test]
fn no_assignor_moves_less_than_the_least_and_sticky_moves_no_more() {
    let mut random = Random(7);
    for _ in 0..300 {
        let mut pick = |most: u64| (random.draw() % most) as u32 + 1;
        let (partitions, stay, leave, join) = (pick(500), pick(40), pick(10), pick(10));
        let before: Vec<u32> = (0..stay + leave).collect();
        let after: Vec<u32> = (leave..stay + leave + join).collect();
        let owners = range(&before, partitions);
        let least = least(&owners, &after);
        assert_eq!(moved(&owners, &sticky(&owners, &after)), least);
        for assignor in [Assignor::Sticky, Assignor::Range, Assignor::Modulo] {
            let now = assignor.assign(&owners, &after);
            assert!(moved(&owners, &now) >= least);
            let counts: Vec<_> =
                after.iter().map(|member| now.iter().filter(|owner| *owner == member).count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), partitions as usize);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{assignor:?} {counts:?}");
        }
    }
}

#[test]
fn records_are_counted_also_in_blocks_but_neither_seals_nor_torn_ends() {
    let frame = |kind: u8, offset: u64, payload: usize| {
        let mut frame = ((27 + payload) as u32).to_le_bytes().to_vec();
        frame.extend([0; 4]);
        frame.push(kind);
        frame.extend(offset.to_le_bytes());
        frame.resize(35 + payload, 0);
        frame
    };
    let records = [frame(0, 41, 20), frame(0, 42, 20)].concat();
    let packed = lz4_flex::block::compress(&records);
    let mut block = frame(3, 41, 12 + packed.len());
    block[43..47].copy_from_slice(&(records.len() as u32).to_le_bytes());
    block[47..].copy_from_slice(&packed);
    let mut segment = [frame(0, 40, 10), block, frame(0, 43, 5), frame(1, 44, 0), frame(0, 44, 9)].concat();
    segment.pop();
    let mut count = Count::default();
    assert_eq!(add_segment(&mut count, &uncompressed(&segment).unwrap()), 44);
    assert_eq!((count.stored, count.bytes), (4, 55));
}

#[test]
fn a_table_replaces_the_text_at_its_place() {
    let page = "a\n<!-- x -->\nold\n<!-- /x -->\nb";
    assert_eq!(replaced(page, "x", "new\n").unwrap(), "a\n<!-- x -->\nnew\n<!-- /x -->\nb");
    assert_eq!(replaced(page, "y", "new\n"), None);
    assert_eq!(["1", "1,000", "16,384,000"], [1, 1_000, 16_384_000].map(grouped));
}
