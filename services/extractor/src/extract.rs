//! The pure core: from the bytes of a page to its links, text and metadata.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use orbweaver_main_text::{MainText, MarkdownOptions};
use orbweaver_messages::{
    DiscoveryKind, DocumentLink, Facts, Markdown, Millis, RobotsDirectives, TextSignature, Truncated,
};
use orbweaver_url::resolve;
use url::Url;

use crate::charset::{self, CharsetSource};
use crate::links::{Link, Requisite, Resolver};
use crate::pass::Progress;
use crate::scan::scan;
use crate::{ExtractorConfig, robots, signature::signature};

/// A fetched page.
#[derive(Debug, Clone, Copy)]
pub struct PageInput<'a> {
    /// URL of the page, against which relative links are resolved unless the page has a `base`.
    pub url: &'a Url,
    /// Site of the page, if known.
    pub site: Option<&'a str>,
    /// Content type, as given by the server.
    pub content_type: Option<&'a str>,
    /// Headers of the response, names in lower case. Only `x-robots-tag` is read.
    pub headers: &'a [(String, String)],
    /// Body, decoded from its transfer and content encodings.
    pub body: &'a [u8],
}

/// Extracted contents of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Text of the first `title`, white space folded; empty if there is none.
    pub title: String,
    /// Shown text, white space folded.
    pub text: String,
    /// Links to http and https URLs, in order, including duplicates; at most as many as a document may have.
    pub links: Vec<Link>,
    /// Further links of the same pass, which are only followed: without texts and `rel`.
    pub beyond: Vec<Link>,
    /// Requisites of the page, if requested.
    pub requisites: Vec<Requisite>,
    /// Other links of the page, if requested.
    pub other_links: Option<Vec<DocumentLink>>,
    /// Sites of the links and requisites; the first is the page's own.
    pub sites: Vec<String>,
    /// URL against which links are resolved.
    pub base: Url,
    /// Canonical URL declared by the page.
    pub canonical: Option<String>,
    /// Language declared by the page.
    pub language: Option<String>,
    /// Description declared by the page.
    pub description: Option<String>,
    /// Encoding of the body, by its WHATWG name.
    pub charset: &'static str,
    /// Source of that encoding.
    pub charset_source: CharsetSource,
    /// Robots directives of the page.
    pub robots: RobotsDirectives,
    /// Parts that were cut at a limit.
    pub truncated: Truncated,
    /// Number of links on the page from the first one of this pass, including those beyond a limit. Those of later
    /// passes are counted whatever their scheme.
    pub links_total: usize,
    /// Number of links in the markup, of whatever scheme, after which the next pass starts; `None` after the last pass.
    pub next: Option<usize>,
    /// Bytes of the whole text.
    pub text_bytes: usize,
    /// Whether scripts have to make the content of the page.
    pub needs_render: bool,
    /// Main text, and as Markdown, if requested.
    pub main_text: Option<String>,
    pub markdown: Option<String>,
    /// Signature of the whole main text, if near duplicates are marked and it is not too short.
    pub signature: Option<TextSignature>,
    /// Facts, if requested.
    pub facts: Option<Box<Facts>>,
    /// Decoded body, if requested.
    pub html: Option<String>,
}

/// Targets of links to one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed<'a> {
    pub site: &'a str,
    /// Way in which they were discovered: links, sitemaps and feeds, or updates.
    pub sighting: DiscoveryKind,
    pub urls: Vec<&'a str>,
    /// Modification times of the entries of a sitemap or feed, in the order of `urls`; 0: none.
    pub modified_ms: Vec<Millis>,
}

/// Extracts a page, with as many of its links as one pass takes. Never fails: any bytes are a page.
#[must_use]
pub fn extract(input: &PageInput<'_>, options: &ExtractorConfig) -> Extracted {
    let extracted = extract_after(input, options, 0);
    let progress = Progress::default().after(&extracted);
    extracted.with_counts(&progress)
}

/// Extracts a page, with the links after the first `from`, which earlier passes took. [`Extracted::with_counts`] marks
/// whether links are cut.
pub(crate) fn extract_after(input: &PageInput<'_>, options: &ExtractorConfig, from: usize) -> Extracted {
    let body = &input.body[..input.body.len().min(options.max_body_bytes)];
    let (encoding, charset_source) = charset::choose(body, input.content_type, top_level_domain(input.url));
    let html = charset::decode(body, encoding);
    let scanned = scan(&html, options, from);

    let base = scanned.base.as_deref().and_then(|href| base_url(input.url, href)).unwrap_or_else(|| input.url.clone());
    let own_site = input.site.map_or_else(|| options.wide_domains.site_of(input.url), std::borrow::Cow::Borrowed);
    let mut resolver = Resolver::new(&base, encoding, (input.url, &own_site), &options.wide_domains);
    let canonical = scanned.canonical.and_then(|href| resolver.url(&href)).map(String::from);
    let found = resolver.links(scanned.links, options);
    let requisites = resolver.requisites(&scanned.requisites, input.url, options.max_links_bytes);
    let read = from + found.read;
    let later = scanned.links_seen.saturating_sub(read);
    let mut truncated = scanned.truncated;
    truncated.links |= resolver.truncated;
    truncated.body |= body.len() < input.body.len();
    let other_links = scanned.other_links.map(|raw| {
        let (links, is_cut) = resolver.others(raw, options.max_links_bytes);
        truncated.other_links |= is_cut;
        links
    });

    let mut robots = scanned.robots;
    for (_, value) in input.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-robots-tag")) {
        robots::add_header(&mut robots, value, &options.agent);
    }
    let MainTexts { text: main_text, markdown, signature } = main_texts(&html, input.url, options, &mut truncated);
    let facts = scanned.facts.map(|facts| {
        let text = main_text.as_deref().unwrap_or(&scanned.text);
        let (facts, is_cut) = facts.finish(&mut resolver, input.headers, &options.agent, text);
        truncated.facts |= is_cut;
        Box::new(facts)
    });
    Extracted {
        title: scanned.title,
        text: scanned.text,
        main_text,
        markdown,
        signature,
        links_total: found.links.len() + found.beyond.len() + later,
        next: (later > 0).then_some(read),
        links: found.links,
        beyond: found.beyond,
        requisites,
        other_links,
        sites: resolver.into_sites(),
        canonical,
        language: scanned.language,
        description: scanned.description,
        facts,
        charset: encoding.name(),
        charset_source,
        robots,
        truncated,
        text_bytes: scanned.text_bytes,
        needs_render: scanned.needs_render,
        html: options.html.then(|| html.into_owned()),
        base,
    }
}

/// Main text of a page in its forms, as far as they are requested.
#[derive(Default)]
struct MainTexts {
    text: Option<String>,
    markdown: Option<String>,
    signature: Option<TextSignature>,
}

/// Returns the main text of a page, and marks whether text or Markdown is cut.
fn main_texts(html: &str, page: &Url, options: &ExtractorConfig, truncated: &mut Truncated) -> MainTexts {
    let ExtractorConfig { main_text: has_text, markdown: as_markdown, near_duplicates, .. } = *options;
    if !has_text && as_markdown == Markdown::None && !near_duplicates {
        return MainTexts::default();
    }
    let main_text = MainText::of(html);
    truncated.main_text |= main_text.is_cut() && (has_text || as_markdown != Markdown::None);
    let mut within = |mut text: String| {
        let kept = text.floor_char_boundary(options.max_text_bytes);
        truncated.main_text |= kept < text.len();
        text.truncate(kept);
        text
    };
    let whole = (has_text || near_duplicates).then(|| main_text.text());
    let signature = whole.as_deref().filter(|_| near_duplicates).and_then(signature);
    let images = as_markdown == Markdown::Images;
    MainTexts {
        text: whole.filter(|_| has_text).map(&mut within),
        markdown: (as_markdown != Markdown::None).then(|| within(main_text.markdown(page, MarkdownOptions { images }))),
        signature,
    }
}

impl Extracted {
    /// Sets the number of links on the page, known after all passes, and marks the links if any are missing or cut.
    pub(crate) fn with_counts(mut self, progress: &Progress) -> Self {
        let links_total = progress.total();
        self.truncated.links |= progress.is_cut || self.links.len() < links_total;
        Self { links_total, ..self }
    }

    /// Returns all links of this pass.
    pub(crate) fn all_links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().chain(&self.beyond)
    }

    /// Returns `true` if links of the page may be followed.
    pub(crate) fn is_followed(&self, follow_nofollow: bool) -> bool {
        !self.robots.nofollow || follow_nofollow
    }

    /// Returns the distinct targets of this pass to follow, by site, each in the order of its first link; sitemaps and
    /// feeds apart, as are updates. `page` itself is not among them, since it is known.
    #[must_use]
    pub fn followed(&self, page: &str, follow_nofollow: bool) -> Vec<Followed<'_>> {
        let group = |sighting| {
            let of = move |site| Followed { site, sighting, urls: Vec::new(), modified_ms: Vec::new() };
            self.sites.iter().map(String::as_str).map(of)
        };
        let kinds = [DiscoveryKind::Link, DiscoveryKind::Sitemap, DiscoveryKind::Update];
        let mut groups: Vec<Followed<'_>> = kinds.into_iter().flat_map(group).collect();
        if self.is_followed(follow_nofollow) {
            let mut known = HashSet::with_capacity(1 + self.links.len());
            known.insert(page);
            for link in self.all_links().filter(|link| !link.nofollow || follow_nofollow) {
                if known.insert(link.url.as_str()) {
                    let kind = if link.is_sitemap { 1 } else { 2 * usize::from(link.is_update) };
                    let group = &mut groups[kind * self.sites.len() + link.site];
                    if let Some(modified_ms) = link.modified_ms {
                        group.modified_ms.resize(group.urls.len(), 0);
                        group.modified_ms.push(modified_ms);
                    }
                    group.urls.push(&link.url);
                }
            }
        }
        groups.retain(|group| !group.urls.is_empty());
        groups
    }

    /// Returns the distinct targets for the store, in the order of their first link, and whether they are nofollow:
    /// because the page is, or every link to them.
    #[must_use]
    pub fn targets(&self) -> Vec<(String, bool)> {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(self.links.len());
        let mut targets: Vec<(String, bool)> = Vec::with_capacity(self.links.len());
        for link in &self.links {
            let nofollow = link.nofollow || self.robots.nofollow;
            match places.get(link.url.as_str()) {
                Some(&place) => targets[place].1 &= nofollow,
                None => {
                    places.insert(&link.url, targets.len());
                    targets.push((link.url.clone(), nofollow));
                }
            }
        }
        targets
    }
}

/// Returns the document's base URL; an invalid `base` is ignored (WHATWG HTML 4.2.3), as is one with a scheme other
/// than http and https, since no link of such a page could be followed.
fn base_url(page: &Url, href: &str) -> Option<Url> {
    resolve(page, href).ok()
}

fn top_level_domain(url: &Url) -> Option<&str> {
    url.domain()?.trim_end_matches('.').rsplit('.').next()
}
