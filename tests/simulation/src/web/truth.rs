//! Expected results of a crawl, derived from the web alone.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use orbweaver_url::CrawlName;

use super::{Asked, Kind, Page, Served, Web};

/// Expected results of a crawl, given the responses of the web so far.
#[derive(Debug, Clone)]
pub struct Expectation {
    pub crawl: CrawlName,
    /// The web, with the seeds and the depth of this crawl.
    pub web: Web,
    /// Product tokens of the user agents in its requests.
    pub agents: BTreeSet<String>,
    /// The request log of the web.
    pub served: Arc<Served>,
    /// Whether its URLs are visited again.
    pub has_revisits: bool,
    /// Pages that are excluded at some time.
    pub excluded: BTreeSet<usize>,
    /// Number of attempts per URL.
    pub max_attempts: u8,
}

impl Expectation {
    /// Returns the requests of this crawl so far, in order of arrival.
    pub fn asked(&self) -> impl Iterator<Item = Asked> {
        self.served.asked().into_iter().filter(|asked| self.agents.contains(&asked.agent))
    }

    /// Returns the truth so far. A page may end without a document if the web answered each of its attempts with a
    /// failure; pages reachable only through it may then be missing too.
    #[must_use]
    pub fn truth(&self) -> Truth {
        let given_up = self.served.given_up(self.max_attempts, &self.agents);
        Truth::narrowed(&self.web, &self.excluded.union(&given_up).copied().collect())
    }
}

/// Expected results of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// URLs that must become documents.
    pub documents: BTreeSet<String>,
    /// URLs that may become documents: additionally those admitted before the scope became narrower.
    pub possible: BTreeSet<String>,
    /// URLs that may be requested.
    pub allowed: BTreeSet<String>,
    /// URLs out of scope that must be requested.
    pub checked: BTreeSet<String>,
}

impl Truth {
    /// Derives the truth of `web`.
    #[must_use]
    pub fn of(web: &Web) -> Self {
        Self::without(web, &BTreeSet::new())
    }

    /// Derives the truth of `web` if these pages lead nowhere.
    fn without(web: &Web, barren: &BTreeSet<usize>) -> Self {
        let mut depths: Vec<Option<u16>> = vec![None; web.pages.len()];
        let mut queue: VecDeque<(usize, u16, bool)> = web.seeds.iter().map(|&seed| (seed, 0, true)).collect();
        let mut outside = vec![];
        // Lowest depth first: redirects keep the depth and go to the front of the queue.
        while let Some((page, depth, is_seed)) = queue.pop_front() {
            if !is_seed && web.external.contains(&page) {
                outside.push(page);
                continue;
            }
            if web.max_depth.is_some_and(|max| depth > max) || depths[page].is_some_and(|known| known <= depth) {
                continue;
            }
            depths[page] = Some(depth);
            if barren.contains(&page) {
                continue;
            }
            // Sitemaps and a depth limit do not occur together: the depth of a sitemap is that of the first request.
            queue.extend(web.sitemap(web.pages[page].host).map(|sitemap| (sitemap, depth, false)));
            match web.pages[page].kind {
                Kind::Html | Kind::CookieWall | Kind::Sitemap => {
                    queue.extend(web.pages[page].links.iter().map(|&to| (to, depth + 1, false)));
                }
                Kind::Redirect(to) => queue.push_front((to, depth, is_seed)),
                Kind::Missing | Kind::Pdf | Kind::Private => {}
            }
        }
        let mut checked = BTreeSet::new();
        while let Some(page) = outside.pop() {
            if checked.insert(page)
                && !barren.contains(&page)
                && let Kind::Redirect(to) = web.pages[page].kind
            {
                outside.push(to);
            }
        }
        let checked: BTreeSet<String> = checked
            .into_iter()
            .map(|number| &web.pages[number])
            .filter(|page| page.kind != Kind::Private)
            .map(|page| page.url.clone())
            .collect();
        let reached = || web.pages.iter().zip(&depths).filter(|(_, depth)| depth.is_some()).map(|(page, _)| page);
        let is_document = |kind: Kind| matches!(kind, Kind::Html | Kind::CookieWall);
        let is_barren = |page: &Page| web.page(&page.url).is_some_and(|number| barren.contains(&number));
        let documents = reached().filter(|page| is_document(page.kind) && !is_barren(page));
        let documents: BTreeSet<String> = documents.map(|page| page.url.clone()).collect();
        Self {
            possible: documents.clone(),
            documents,
            allowed: reached()
                .filter(|page| page.kind != Kind::Private)
                .map(|page| page.url.clone())
                .chain(checked.clone())
                .collect(),
            checked,
        }
    }

    /// Derives the truth of `web` if these pages are excluded for some time, from any moment on: they, and pages
    /// reachable only through them, may become documents but need not.
    #[must_use]
    pub fn narrowed(web: &Web, excluded: &BTreeSet<usize>) -> Self {
        let Self { documents, checked, .. } = Self::without(web, excluded);
        Self { documents, checked, ..Self::of(web) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn without_a_depth_the_truth_is_all_that_links_and_redirects_lead_to() {
        let mut with_all = 0;
        for seed in 0..200 {
            let mut web = Web::make(&mut Random::new(seed));
            web.max_depth = None;
            let truth = Truth::of(&web);
            let html = web.pages.iter().filter(|page| matches!(page.kind, Kind::Html | Kind::CookieWall)).count();
            assert_eq!(truth.documents.len(), html, "seed {seed}: every page hangs on the tree");
            with_all += usize::from(truth.allowed.len() == web.pages.len());
        }
        assert!(with_all < 200, "some pages are forbidden");
    }

    #[test]
    fn pages_that_only_sitemaps_name_are_expected_once_a_page_of_their_host_is_requested() {
        let mut with_named = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut web = Web::make(&mut random);
            web.max_depth = None;
            web.add_sitemaps(&mut random);
            let truth = Truth::of(&web);
            let unread = Truth::of(&Web { sitemaps: false, ..web.clone() });
            assert!(truth.documents.is_superset(&unread.documents), "seed {seed}");
            with_named += usize::from(truth.documents.len() > unread.documents.len());
        }
        assert!(with_named > 100, "{with_named} of 200 webs");
    }

    #[test]
    fn a_depth_cuts_what_lies_behind_it_and_redirects_cost_none() {
        let mut web = Web::make(&mut Random::new(1));
        web.pages.truncate(4);
        let shape = [(Kind::Redirect(1), vec![]), (Kind::Html, vec![2]), (Kind::Html, vec![3]), (Kind::Html, vec![])];
        for (page, (kind, links)) in web.pages.iter_mut().zip(shape) {
            (page.kind, page.links) = (kind, links);
        }
        (web.seeds, web.max_depth) = (vec![0], Some(1));
        let urls = |pages: &[usize]| pages.iter().map(|&page| web.pages[page].url.clone()).collect::<BTreeSet<_>>();
        assert_eq!(Truth::of(&web).documents, urls(&[1, 2]));
    }

    #[test]
    fn what_is_out_of_scope_is_checked_with_its_redirects_whatever_its_depth_and_leads_nowhere() {
        let mut web = Web::make(&mut Random::new(1));
        web.pages.truncate(6);
        let html = |links: &[usize]| (Kind::Html, links.to_vec());
        // 0 -> 1 -> {2, 5}, 2 -> redirect to 3 -> 4; the depth ends with page 1.
        let shape = [html(&[1]), html(&[2, 5]), (Kind::Redirect(3), vec![]), html(&[4]), html(&[]), html(&[])];
        for (page, (kind, links)) in web.pages.iter_mut().zip(shape) {
            (page.kind, page.links) = (kind, links);
        }
        (web.seeds, web.max_depth, web.external) = (vec![0], Some(1), BTreeSet::from([2]));
        let urls = |pages: &[usize]| pages.iter().map(|&page| web.pages[page].url.clone()).collect::<BTreeSet<_>>();
        let truth = Truth::of(&web);
        assert_eq!((truth.documents, truth.checked), (urls(&[0, 1]), urls(&[2, 3])));
        assert_eq!(truth.allowed, urls(&[0, 1, 2, 3]));
        // A seed, and the end of its redirect, are in scope.
        let of_seed = Web { seeds: vec![2], external: BTreeSet::from([2, 3]), ..web.clone() };
        assert_eq!((Truth::of(&of_seed).documents, Truth::of(&of_seed).checked), (urls(&[3, 4]), urls(&[])));
    }

    #[test]
    fn what_is_excluded_and_what_only_that_leads_to_need_not_come() {
        let mut web = Web::make(&mut Random::new(1));
        web.pages.truncate(4);
        for (page, links) in web.pages.iter_mut().zip([vec![1, 2], vec![3], vec![], vec![]]) {
            (page.kind, page.links) = (Kind::Html, links);
        }
        (web.seeds, web.max_depth) = (vec![0], None);
        let urls = |pages: &[usize]| pages.iter().map(|&page| web.pages[page].url.clone()).collect::<BTreeSet<_>>();
        let truth = Truth::narrowed(&web, &BTreeSet::from([1]));
        assert_eq!((truth.documents, truth.possible), (urls(&[0, 2]), urls(&[0, 1, 2, 3])));
        assert_eq!(Truth::narrowed(&web, &BTreeSet::new()), Truth::of(&web));
    }
}
