//! The crawl is defined anew while it runs.

use std::collections::BTreeSet;

use orbweaver_messages::{CrawlDefinition, Millis, Pins, Scope};
use orbweaver_url::{CANONICAL_POLICY, SUFFIX_LIST_VERSION};

use crate::{random::Random, settings::Settings, web::Web};

/// Another definition, from some moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// When it is written, in milliseconds from the begin.
    pub at_ms: u64,
    /// The pages that are excluded from then on.
    pub excluded: BTreeSet<usize>,
}

impl Revision {
    /// Draws revisions: mostly none; else some pages are excluded, and perhaps others, or none, later.
    #[must_use]
    pub fn draw(random: &mut Random, web: &Web) -> Vec<Self> {
        if !random.chance(30) {
            return vec![];
        }
        let mut at_ms = 0;
        let mut revision = |random: &mut Random, pages: u64| {
            at_ms += random.between(500, 15_000);
            let excluded = (0..pages).map(|_| random.index(web.pages.len())).collect();
            Self { at_ms, excluded }
        };
        let times = random.between(1, 3);
        (0..times)
            .map(|_| random.below(4))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|pages| revision(random, pages))
            .collect()
    }
}

/// The definition of a web's crawl, without these pages.
pub(crate) fn definition(web: &Web, settings: &Settings, excluded: &BTreeSet<usize>, now: Millis) -> CrawlDefinition {
    CrawlDefinition {
        name: "default".to_owned(),
        scope: Scope::Any,
        include: vec![],
        // A page's URL ends in its number, and no other page's does.
        exclude: excluded.iter().map(|page| format!("/p{page}$")).collect(),
        max_depth: web.max_depth,
        max_pages: None,
        traps: orbweaver_messages::Traps::default(),
        pins: Pins {
            partitions: settings.partitions,
            suffix_list: SUFFIX_LIST_VERSION.to_owned(),
            canonical_policy: CANONICAL_POLICY.to_owned(),
            wide_domains: vec![],
        },
        created_at_ms: now,
        replaces: vec![],
    }
}
