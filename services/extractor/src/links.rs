//! Resolution of links to absolute URLs and their sites.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use encoding_rs::{EncoderResult, Encoding, ISO_2022_JP, UTF_8};
use orbweaver_messages::{DocumentLink, LinkKind, Millis};
use orbweaver_url::{MAX_URL_BYTES, QueryEncoding, UrlError, WideDomains, resolve_encoded, resolve_plain};
use url::Url;

use crate::ExtractorConfig;
use crate::scan::RawLink;

/// A link to an http or https URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Target, absolute, without a fragment except for `#!…`.
    pub url: String,
    /// Text of the link, white space folded; empty for links without text (area, frames, refresh).
    pub text: String,
    /// Tokens of `rel`, as written.
    pub rel: String,
    /// Kind of the link.
    pub kind: LinkKind,
    /// Whether `rel` contains nofollow.
    pub nofollow: bool,
    /// Whether the target is named as a sitemap or feed.
    pub is_sitemap: bool,
    /// Date of a sitemap or feed that lists the target, in milliseconds since the Unix epoch.
    pub modified_ms: Option<Millis>,
    /// Whether that date is newer than the last reading of the file.
    pub is_update: bool,
    /// Index of the target's site in [`crate::Extracted::sites`].
    pub site: usize,
}

/// A URL that a page needs to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requisite {
    /// URL, absolute, without a fragment.
    pub url: String,
    /// Index of its site in [`crate::Extracted::sites`].
    pub site: usize,
}

/// Resolver for the links of one page.
pub(crate) struct Resolver<'a> {
    base: &'a Url,
    encoding: &'static Encoding,
    sites: Sites<'a>,
    /// Whether a link was omitted because its URL is too long.
    pub(crate) truncated: bool,
}

/// Links of one pass.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// Links within the limits of a document.
    pub(crate) links: Vec<Link>,
    /// Links beyond these limits, without their texts.
    pub(crate) beyond: Vec<Link>,
    /// Number of links in the markup that were read, of whatever scheme.
    pub(crate) read: usize,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver against `base`, in the encoding of the page. `page` and `site` are the page's own.
    pub(crate) fn new(
        base: &'a Url,
        encoding: &'static Encoding,
        (page, site): (&Url, &str),
        wide: &'a WideDomains,
    ) -> Self {
        let sites = Sites::new(page, site, wide);
        Self { base, encoding: encoding.output_encoding(), sites, truncated: false }
    }

    /// Returns the URL of one link; `None` if it is not an http or https URL.
    pub(crate) fn url(&mut self, href: &str) -> Option<Url> {
        let url = self.resolve(href);
        self.truncated |= url.as_ref().is_err_and(|error| self.is_cut(href, error));
        url.ok()
    }

    /// Returns the URL of one link and the index of its site; `None` if it is not an http or https URL.
    fn followable(&mut self, href: &str) -> Option<(String, usize)> {
        if let Some(url) = resolve_plain(self.base, href) {
            return Some((url, self.sites.index_of(self.base)));
        }
        let url = self.url(href)?;
        let site = self.sites.index_of(&url);
        Some((url.into(), site))
    }

    /// Returns `true` if an http or https URL was omitted because it is too long; long `data:` URLs are common.
    fn is_cut(&self, href: &str, error: &UrlError) -> bool {
        let start = &href[..href.floor_char_boundary(MAX_URL_BYTES / 2)];
        matches!(error, UrlError::TooLong(_)) && matches!(self.resolve(start), Ok(_) | Err(UrlError::TooLong(_)))
    }

    /// Returns a URL of any scheme with its fragment, absolute; `None` if it is invalid.
    pub(crate) fn absolute(&self, href: &str) -> Option<String> {
        self.base.join(href).ok().map(String::from)
    }

    /// Returns the resolvable links in order, up to the total length of their URLs that one pass takes; at least one.
    pub(crate) fn links(&mut self, raw: Vec<RawLink>, options: &ExtractorConfig) -> Resolved {
        let links = Vec::with_capacity(raw.len().min(options.max_links));
        let mut found = Resolved { links, beyond: Vec::new(), read: raw.len() };
        let mut room = Some(options.max_links_bytes);
        let mut pass_room = options.pass_limits().1;
        for (index, raw) in raw.into_iter().enumerate() {
            let RawLink { href, text, rel, kind, is_sitemap, modified_ms, is_update } = raw;
            let Some((url, site)) = self.followable(&href) else { continue };
            let bytes = url.len();
            if bytes > pass_room && !(found.links.is_empty() && found.beyond.is_empty()) {
                found.read = index;
                break;
            }
            pass_room = pass_room.saturating_sub(bytes);
            room = room.filter(|_| found.links.len() < options.max_links).and_then(|room| room.checked_sub(bytes));
            let nofollow = rel.split(' ').any(|word| word.eq_ignore_ascii_case("nofollow"));
            let link = Link { url, text, rel, kind, nofollow, is_sitemap, modified_ms, is_update, site };
            if room.is_some() {
                found.links.push(link);
            } else {
                let (text, rel) = Default::default();
                found.beyond.push(Link { text, rel, ..link });
            }
        }
        found
    }

    /// Returns the distinct requisites in order, without the page itself, up to a total length of their URLs.
    pub(crate) fn requisites(&mut self, raw: &[String], page: &Url, mut room: usize) -> Vec<Requisite> {
        let (mut found, mut known) = (Vec::with_capacity(raw.len()), HashSet::new());
        known.insert(without_fragment(page.clone()));
        for href in raw {
            let Ok(url) = self.resolve(href) else { continue };
            let site = self.sites.index_of(&url);
            let url = without_fragment(url);
            let Some(left) = room.checked_sub(url.len()) else { break };
            room = left;
            if known.insert(url.clone()) {
                found.push(Requisite { url, site });
            }
        }
        found
    }

    /// Returns the resolvable other links in order, up to a total length; and whether any are missing.
    pub(crate) fn others(&self, raw: Vec<RawLink>, mut room: usize) -> (Vec<DocumentLink>, bool) {
        let (mut found, mut is_cut) = (Vec::with_capacity(raw.len()), false);
        for RawLink { href, text, rel, kind, .. } in raw {
            let url = match self.resolve(&href) {
                Ok(url) => String::from(url),
                Err(error) => {
                    is_cut |= self.is_cut(&href, &error);
                    continue;
                }
            };
            let Some(left) = room.checked_sub(url.len() + text.len() + rel.len()) else { return (found, true) };
            room = left;
            found.push(DocumentLink { url, text, rel, kind });
        }
        (found, is_cut)
    }

    /// Returns the sites of the links; the first is the page's own.
    pub(crate) fn into_sites(self) -> Vec<String> {
        self.sites.names
    }

    fn resolve(&self, href: &str) -> Result<Url, UrlError> {
        if self.encoding == UTF_8 {
            return resolve_encoded(self.base, href, None);
        }
        let encode: QueryEncoding<'_> = &|query| encode_query(self.encoding, query);
        resolve_encoded(self.base, href, Some(encode))
    }
}

pub(crate) fn without_fragment(mut url: Url) -> String {
    url.set_fragment(None);
    url.into()
}

/// Encodes a query in an encoding. Characters that it lacks become percent-encoded character references (WHATWG URL,
/// "percent-encode after encoding").
fn encode_query<'q>(encoding: &'static Encoding, query: &'q str) -> Cow<'q, [u8]> {
    if query.is_ascii() && encoding != ISO_2022_JP {
        return Cow::Borrowed(query.as_bytes());
    }
    let mut encoder = encoding.new_encoder();
    let mut bytes = Vec::with_capacity(query.len() + 16);
    let mut rest = query;
    loop {
        bytes.reserve(
            encoder.max_buffer_length_from_utf8_without_replacement(rest.len()).unwrap_or(4 * rest.len() + 16),
        );
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
        rest = &rest[read..];
        match result {
            EncoderResult::Unmappable(character) => {
                bytes.extend_from_slice(format!("%26%23{}%3B", u32::from(character)).as_bytes());
            }
            EncoderResult::InputEmpty => return Cow::Owned(bytes),
            EncoderResult::OutputFull => {}
        }
    }
}

/// Sites of the links of one page; most links lead to the same host as the previous one.
struct Sites<'a> {
    wide: &'a WideDomains,
    names: Vec<String>,
    /// Indexes of the sites, by their names and by the hosts that belong to them. A host with the name of a site belongs
    /// to that site.
    places: HashMap<String, usize>,
    last: (String, usize),
}

impl<'a> Sites<'a> {
    fn new(page: &Url, site: &str, wide: &'a WideDomains) -> Self {
        let host = page.host_str().unwrap_or_default().to_owned();
        Self {
            wide,
            names: vec![site.to_owned()],
            places: HashMap::from([(site.to_owned(), 0), (host.clone(), 0)]),
            last: (host, 0),
        }
    }

    fn index_of(&mut self, url: &Url) -> usize {
        let host = url.host_str().unwrap_or_default();
        if self.last.0 == host {
            return self.last.1;
        }
        let place = match self.places.get(host) {
            Some(&place) => place,
            None => {
                let site = self.wide.site_of(url).into_owned();
                let place = *self.places.entry(site).or_insert_with_key(|site| {
                    self.names.push(site.clone());
                    self.names.len() - 1
                });
                self.places.insert(host.to_owned(), place);
                place
            }
        };
        self.last = (host.to_owned(), place);
        place
    }
}
