//! Order of the URLs of a site, and of the sites of a crawl.

use std::{collections::HashMap, sync::Arc};

use orbweaver_frontier::{FrontierConfig, FrontierStage, metrics::FrontierMetrics};
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{
    CrawlOrder, Dispatch, FrontierUrl, Outcome, OutcomeKind, SiteSettings, encode, site_key, topic,
};
use orbweaver_scope::rank;
use orbweaver_stage::Origin;
use prometheus::Registry;

use crate::play::{self, NOW, Wanted, definition, delivered, follow, open, produced, receive};

/// Returns a stage with this limit of outstanding dispatches, and sites without an interval.
fn stage(limit: usize) -> FrontierStage {
    let config = FrontierConfig {
        default_interval_ms: 0,
        min_outstanding: limit,
        max_outstanding: limit,
        ..FrontierConfig::default()
    };
    let mut stage = FrontierStage::new(config, FrontierMetrics::register(&Registry::new()).unwrap(), Arc::default());
    open(&mut stage, 1);
    stage
}

fn dispatches(actions: &Wanted) -> Vec<Dispatch> {
    produced(actions, topic::SCHEDULED, "dispatch")
}

/// Ends these dispatches with this answer. Returns those that follow.
fn answer(stage: &mut FrontierStage, offset: u64, ended: &[Dispatch], status: u16) -> Vec<Dispatch> {
    let outcome = |(dispatch, offset): (&Dispatch, u64)| {
        let kind = if status == 200 { OutcomeKind::Fetched } else { OutcomeKind::Gone };
        let outcome =
            Outcome { status: Some(status), requested_at_ms: Some(NOW), ..Outcome::of(dispatch, kind, None, NOW) };
        delivered(topic::OUTCOMES, offset, dispatch.context.site.to_string(), Some(encode(&outcome)))
    };
    dispatches(&receive(stage, ended.iter().zip(offset..).map(outcome).collect()))
}

/// Returns the queued URL of a depth and priority in an order.
fn waiting(offset: u64, order: CrawlOrder, depth: u16, priority: i64) -> (Origin, ConsumerRecord) {
    play::waiting(offset, "docs", &format!("{depth}/{priority}"), |waiting| {
        waiting.context.depth = depth;
        waiting.rank = rank(&order, priority.try_into().unwrap(), depth, NOW);
    })
}

#[test]
fn the_urls_of_a_site_are_dispatched_by_weight_and_equal_ones_as_they_came() {
    for (order, expected) in [
        (CrawlOrder::BREADTH_FIRST, ["1/2", "0/0", "1/0", "2/1", "3/0"]),
        (CrawlOrder::DEPTH_FIRST, ["3/0", "1/2", "2/1", "1/0", "0/0"]),
    ] {
        let mut stage = stage(100);
        let urls = [(3, 0), (1, 2), (0, 0), (1, 0), (2, 1)];
        let queued = urls.iter().zip(0..).map(|((depth, priority), offset)| waiting(offset, order, *depth, *priority));
        let paths: Vec<String> = dispatches(&receive(&mut stage, queued.collect()))
            .iter()
            .map(|dispatch| dispatch.context.url.trim_start_matches("https://example.org/").to_owned())
            .collect();
        assert_eq!(paths, expected, "{order:?}");
    }
}

/// Queues 400 URLs at each of these sites, and returns how many of the next `count` dispatches each site has.
fn divided(
    stage: &mut FrontierStage,
    sites: &[&str],
    change: impl Fn(&str, &mut FrontierUrl),
) -> HashMap<String, usize> {
    let queued = sites.iter().enumerate().flat_map(|(number, site)| {
        let change = &change;
        (0..400).map(move |page| {
            play::waiting(400 * number as u64 + page, "docs", &format!("{site}/{page}"), |waiting| {
                waiting.context.site = (*site).into();
                change(site, waiting);
            })
        })
    });
    let mut next = dispatches(&receive(stage, queued.collect()));
    let mut counts = HashMap::<String, usize>::new();
    for offset in 0..400 {
        let (ended, rest) = next.split_at(1);
        *counts.entry(ended[0].context.site.to_string()).or_default() += 1;
        let status = if *ended[0].context.site == *"bad.example" { 404 } else { 200 };
        next = [rest, &answer(stage, offset, ended, status)].concat();
    }
    counts
}

#[test]
fn a_site_has_more_turns_by_the_weight_of_its_settings_and_none_is_starved() {
    let mut stage = stage(4);
    let settings = SiteSettings { weight_percent: Some(300), ..SiteSettings::of("heavy.example".into(), NOW) };
    follow(&mut stage, &delivered(topic::CONTROL, 1, site_key("heavy.example"), Some(encode(&settings))).1);
    let counts = divided(&mut stage, &["heavy.example", "other.example"], |_, _| {});
    assert!(counts["heavy.example"].abs_diff(300) <= 8, "{counts:?}");
}

#[test]
fn a_site_has_more_turns_by_the_priority_of_its_urls() {
    let order = CrawlOrder::BREADTH_FIRST;
    let counts = divided(&mut stage(4), &["high.example", "low.example"], |site, waiting| {
        waiting.rank = rank(&order, i64::from(site == "high.example").try_into().unwrap(), 0, NOW);
    });
    assert!(counts["high.example"].abs_diff(267) <= 8, "{counts:?}");
}

#[test]
fn a_site_that_answers_well_has_more_turns_if_the_order_of_the_crawl_has_a_factor_for_answers() {
    for (answers_percent, most) in [(0, 208), (40, 800)] {
        let mut stage = stage(4);
        let order = CrawlOrder { answers_percent, ..CrawlOrder::BREADTH_FIRST };
        follow(&mut stage, &definition(1, "docs", |definition| definition.order = order));
        let counts = divided(&mut stage, &["good.example", "bad.example"], |_, _| {});
        let good = counts["good.example"];
        assert!(good <= most && (answers_percent == 0 || good > 250), "{counts:?}");
    }
}

#[test]
fn a_crawl_has_dispatches_in_proportion_to_its_share() {
    let mut stage = stage(40);
    for (version, crawl, share) in [(1, "one", 100), (2, "three", 300)] {
        follow(&mut stage, &definition(version, crawl, |definition| definition.share = share));
    }
    let queued = ["one", "three"].into_iter().enumerate().flat_map(|(number, crawl)| {
        (0..400).map(move |page| {
            play::waiting(400 * number as u64 + page, crawl, &format!("{page}"), |waiting| {
                waiting.context.site = format!("{crawl}{page}.example").as_str().into();
            })
        })
    });
    let first = dispatches(&receive(&mut stage, queued.collect()));
    let next = answer(&mut stage, 0, &first, 404);
    let of_one = next.iter().filter(|dispatch| dispatch.context.crawl == "one").count();
    assert_eq!((next.len(), of_one), (40, 10));
}
