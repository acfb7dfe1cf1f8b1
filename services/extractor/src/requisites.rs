//! Requisites of a page, which it needs to be shown: pictures, style sheets, scripts, media, fonts, pages within it.

use std::collections::HashSet;

use encoding_rs::UTF_8;
use orbweaver_url::MAX_URL_BYTES;
use xxhash_rust::xxh3::xxh3_64;

use crate::extract::PageInput;
use crate::links::{Requisite, Resolver};
use crate::resources::of_css;
use crate::{ExtractorConfig, charset};

/// Requisites as written, without repetitions, up to a maximum number.
#[derive(Debug)]
pub(crate) struct Requisites {
    most: usize,
    /// Hashes of those that were found.
    known: HashSet<u64>,
    pub(crate) found: Vec<String>,
}

impl Requisites {
    /// Creates an empty list; `None` if the options request no requisites.
    pub(crate) fn new(options: &ExtractorConfig) -> Option<Self> {
        let most = usize::try_from(options.requisites).unwrap_or(usize::MAX).min(options.pass_limits().0);
        (most > 0).then(|| Self { most, known: HashSet::new(), found: Vec::new() })
    }

    /// Adds a requisite, unless it is too long for a URL.
    pub(crate) fn add(&mut self, url: &str) {
        if url.len() > 2 * MAX_URL_BYTES || self.found.len() >= self.most {
            return;
        }
        if self.known.insert(xxh3_64(url.as_bytes())) {
            self.found.push(url.to_owned());
        }
    }
}

/// Returns the requisites of a style sheet and their sites, if its page record requests them.
pub(crate) fn of_style_sheet(input: &PageInput<'_>, options: &ExtractorConfig) -> (Vec<Requisite>, Vec<String>) {
    let Some(mut found) = Requisites::new(options) else { return (vec![], vec![]) };
    let (encoding, _) = charset::choose(input.body, input.content_type, None);
    of_css(&charset::decode(input.body, encoding), |resource| found.add(resource.url));
    let own_site = input.site.map_or_else(|| options.wide_domains.site_of(input.url), std::borrow::Cow::Borrowed);
    let mut resolver = Resolver::new(input.url, UTF_8, (input.url, &own_site), &options.wide_domains);
    (resolver.requisites(&found.found, input.url, options.max_links_bytes), resolver.into_sites())
}

/// Returns `true` for the type of style sheets.
pub(crate) fn is_css(content_type: Option<&str>) -> bool {
    let essence = content_type.and_then(|value| value.split([';', ',']).next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/css")
}

#[cfg(test)]
mod tests;
