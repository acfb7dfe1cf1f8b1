//! Queued URLs that are out of scope by now, as the stage ends them.

use orbweaver_frontier::{FrontierStage, metrics};
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{
    DiscoveryKind, Dispatch, EXTERNAL_DEPTH, FrontierUrl, Outcome, OutcomeKind, REQUISITE_DEPTH, topic,
};
use orbweaver_stage::{Origin, Stage};
use prometheus::Registry;

use crate::play::{self, NOW, Wanted, delivered, follow, open, produced, receive, records, tick};

/// Returns a version of the crawl `docs` with this exclude pattern.
fn definition(version: u64, exclude: &str, max_depth: Option<u16>) -> ConsumerRecord {
    play::definition(version, "docs", |definition| {
        (definition.exclude, definition.max_depth) = (vec![exclude.to_owned()], max_depth);
    })
}

fn waiting(offset: u64, path: &str, change: impl FnOnce(&mut FrontierUrl)) -> (Origin, ConsumerRecord) {
    play::waiting(offset, "docs", path, |waiting| {
        (waiting.context.sighting, waiting.context.depth) = (DiscoveryKind::Link, 1);
        change(waiting);
    })
}

/// Returns a stage that has read version 3 of the crawl and has opened partition 0.
fn stage(registry: &Registry) -> FrontierStage {
    let mut stage = play::stage(registry, 0);
    assert_eq!(stage.tails(), [topic::CONTROL]);
    follow(&mut stage, &definition(3, "/never", Some(5)));
    open(&mut stage, 1);
    stage
}

/// Returns the paths that were dispatched, and those that were refused, each with its reason.
fn ends(actions: &Wanted) -> (Vec<String>, Vec<(String, String)>) {
    let path = |url: &str| url.rsplit('/').next().unwrap().to_owned();
    let dispatched: Vec<Dispatch> = produced(actions, topic::SCHEDULED, "dispatch");
    let refused = produced(actions, topic::OUTCOMES, "outcome").into_iter().map(|outcome: Outcome| {
        assert_eq!((outcome.kind, outcome.requested_at_ms), (OutcomeKind::Refused, None));
        (path(&outcome.context.url), outcome.reason.unwrap())
    });
    (dispatched.iter().map(|dispatch| path(&dispatch.context.url)).collect(), refused.collect())
}

fn pair(path: &str, reason: &str) -> (String, String) {
    (path.to_owned(), reason.to_owned())
}

#[test]
fn its_outcome_is_durable_before_its_tombstone_and_that_before_its_origin_completes() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", Some(5)));
    let (a, b) = (waiting(0, "a", |_| {}), waiting(1, "b", |_| {}));
    let origin = a.0;
    let actions = receive(&mut stage, vec![a, b]);
    assert_eq!(ends(&actions), (vec!["b".to_owned()], vec![pair("a", "excluded")]));
    let plan = actions.plans.iter().find(|plan| plan.steps.len() == 2).unwrap();
    let (outcome, tombstone) = (&records(&plan.steps[0])[0], &records(&plan.steps[1])[0]);
    assert_eq!((outcome.tp.topic, tombstone.tp.topic), (topic::OUTCOMES, topic::FRONTIER));
    assert_eq!((&tombstone.value, &plan.completes), (&None, &vec![origin]));
    // The outcome is read back and changes nothing.
    let demoted = delivered(topic::OUTCOMES, 0, "site".to_owned(), outcome.value.clone());
    let actions = receive(&mut stage, vec![demoted.clone()]);
    assert_eq!(actions.completes, [demoted.0]);
    assert!(actions.plans.is_empty(), "{:?}", actions.plans);
}

#[test]
fn depth_and_patterns_refuse_and_a_seed_is_always_in_scope() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", Some(2)));
    let batch = vec![
        waiting(0, "a", |waiting| waiting.context.sighting = DiscoveryKind::Seed),
        waiting(1, "b", |waiting| waiting.context.depth = 3),
        waiting(2, "c", |waiting| waiting.context.depth = 2),
        waiting(3, "ab", |waiting| waiting.context.sighting = DiscoveryKind::Redirect),
    ];
    let (dispatched, refused) = ends(&receive(&mut stage, batch));
    assert_eq!(dispatched, ["a", "c"]);
    assert_eq!(refused, [pair("ab", "excluded"), pair("b", "too_deep")]);
}

#[test]
fn a_requisite_is_in_scope_at_any_depth_and_without_an_include_pattern_unless_it_is_excluded() {
    let mut stage = stage(&Registry::new());
    follow(
        &mut stage,
        &play::definition(4, "docs", |definition| {
            (definition.include, definition.exclude) = (vec!["/c".to_owned()], vec!["/a".to_owned()]);
            definition.max_depth = Some(2);
        }),
    );
    let requisite = |waiting: &mut FrontierUrl| {
        (waiting.context.sighting, waiting.context.depth) = (DiscoveryKind::Requisite, REQUISITE_DEPTH);
    };
    let batch = vec![waiting(0, "a", requisite), waiting(1, "b", requisite), waiting(2, "d", |_| {})];
    let (dispatched, refused) = ends(&receive(&mut stage, batch));
    assert_eq!(dispatched, ["b"]);
    assert_eq!(refused, [pair("d", "not_included"), pair("a", "excluded")]);
}

#[test]
fn an_external_url_is_in_scope_wherever_it_is_unless_it_is_excluded_and_while_such_are_checked() {
    let mut stage = stage(&Registry::new());
    let external = |waiting: &mut FrontierUrl| {
        (waiting.context.sighting, waiting.context.depth) = (DiscoveryKind::External, EXTERNAL_DEPTH);
    };
    for (version, checks) in [(4, true), (5, false)] {
        follow(
            &mut stage,
            &play::definition(version, "docs", |definition| {
                (definition.include, definition.exclude) = (vec!["/c".to_owned()], vec!["/a".to_owned()]);
                (definition.max_depth, definition.check_external) = (Some(2), checks);
            }),
        );
        let first = 10 * version;
        let batch = vec![
            waiting(first, &format!("a{version}"), external),
            waiting(first + 1, &format!("b{version}"), external),
        ];
        let ends = ends(&receive(&mut stage, batch));
        let refused = |path: &str, reason| pair(&format!("{path}{version}"), reason);
        let expected = if checks {
            (vec![format!("b{version}")], vec![refused("a", "excluded")])
        } else {
            (vec![], vec![refused("a", "not_included"), refused("b", "not_included")])
        };
        assert_eq!(ends, expected);
    }
}

#[test]
fn nothing_is_refused_by_an_older_definition_than_the_one_that_let_something_through() {
    let mut stage = stage(&Registry::new());
    follow(&mut stage, &definition(4, "/a", None));
    // Version 6 has admitted the URL, and has not been read here yet.
    let newer = receive(&mut stage, vec![waiting(0, "a6", |waiting| waiting.definition = 6), waiting(1, "a3", |_| {})]);
    assert_eq!(ends(&newer), (vec!["a6".to_owned(), "a3".to_owned()], vec![]));
    follow(&mut stage, &definition(6, "/a[0-4]", None));
    let batch =
        vec![waiting(2, "a2", |_| {}), waiting(3, "a7", |waiting| waiting.definition = 6), waiting(4, "a5", |_| {})];
    assert_eq!(
        ends(&receive(&mut stage, batch)),
        (vec!["a7".to_owned(), "a5".to_owned()], vec![pair("a2", "excluded")])
    );
}

#[test]
fn a_definition_that_cannot_be_used_is_counted_and_what_applied_goes_on_to_apply() {
    let registry = Registry::new();
    let mut stage = stage(&registry);
    follow(&mut stage, &definition(4, "/a", None));
    follow(&mut stage, &definition(5, "(", None));
    let batch = vec![waiting(0, "a", |_| {}), waiting(1, "b", |_| {})];
    assert_eq!(ends(&receive(&mut stage, batch)), (vec!["b".to_owned()], vec![pair("a", "excluded")]));
    let families = registry.gather();
    let metric = |name: &str| families.iter().find(|family| family.name() == name).unwrap().get_metric()[0].clone();
    assert_eq!(metric(metrics::REFUSED_DEFINITIONS).get_counter().get_value() as u64, 1);
    assert_eq!(metric(metrics::DEFINITION_VERSION).get_gauge().get_value() as u64, 4);
    assert_eq!(metric(metrics::REFUSED).get_counter().get_value() as u64, 1);
}

#[test]
fn what_is_outside_ends_in_turns_of_bounded_size_whatever_the_rate_of_its_site() {
    let mut stage = play::stage(&Registry::new(), 1_000);
    follow(&mut stage, &definition(3, "/a", None));
    for number in 0..2_000 {
        // Admitted under the previous version.
        let (_, record) = waiting(number, &format!("a{number}"), |waiting| waiting.definition = 2);
        stage.restore(0, &record).unwrap();
    }
    open(&mut stage, 1);
    let sizes: Vec<usize> = (0..5).map(|_| ends(&tick(&mut stage, NOW)).1.len()).collect();
    assert_eq!(sizes, [512, 512, 512, 464, 0]);
}
