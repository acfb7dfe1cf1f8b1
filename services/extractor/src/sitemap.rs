//! Sitemaps and feeds: their entries are links.

use std::ops::ControlFlow;

use encoding_rs::UTF_8;
use orbweaver_messages::{RobotsDirectives, Truncated};
use orbweaver_sitemaps::{Limits, read_with};

use crate::ExtractorConfig;
use crate::charset::CharsetSource;
use crate::extract::{Extracted, PageInput};
use crate::links::Resolver;
use crate::scan::RawLink;
use crate::updates::{BetweenReadings, MAX_UPDATES};

/// Maximum size of an expanded gzip file, as a multiple of the maximum size of a body. Sitemaps have 50 MB at most
/// (sitemaps.org), and compress to a tenth and less.
const MOST_EXPANSION: usize = 8;

/// Returns as many of the entries of a sitemap or feed as one pass takes, after the first `from`; and the total length of
/// all its URLs as written, in bytes. `readings` is the time since the last reading of the file.
pub(crate) fn extract_after(
    input: &PageInput<'_>,
    options: &ExtractorConfig,
    from: usize,
    readings: Option<BetweenReadings>,
) -> Result<(Extracted, usize), orbweaver_sitemaps::Error> {
    let limits = Limits { expanded_bytes: options.max_body_bytes.saturating_mul(MOST_EXPANSION), ..Limits::default() };
    let (mut raw, mut seen, mut bytes, mut updates) = (Vec::new(), 0, 0, 0);
    let report = read_with(input.body, &limits, |entry| {
        seen += 1;
        bytes += entry.url.len();
        let modified_ms = entry.modified_ms;
        let is_update = !entry.is_sitemap
            && readings.zip(modified_ms).is_some_and(|(readings, modified_ms)| readings.has(modified_ms));
        updates += usize::from(is_update);
        if seen > from && raw.len() < options.pass_limits().0 {
            let (href, is_sitemap) = (entry.url.into_owned(), entry.is_sitemap);
            raw.push(RawLink { href, is_sitemap, modified_ms, is_update, ..RawLink::default() });
        }
        ControlFlow::Continue(())
    })?;
    if updates > MAX_UPDATES {
        raw.iter_mut().for_each(|entry| entry.is_update = false);
    }
    let own_site = input.site.map_or_else(|| options.wide_domains.site_of(input.url), std::borrow::Cow::Borrowed);
    let mut resolver = Resolver::new(input.url, UTF_8, (input.url, &own_site), &options.wide_domains);
    let found = resolver.links(raw, options);
    let read = from + found.read;
    let later = seen.saturating_sub(read);
    let extracted = Extracted {
        title: String::new(),
        text: String::new(),
        links_total: found.links.len() + found.beyond.len() + later,
        next: (later > 0).then_some(read),
        links: found.links,
        beyond: found.beyond,
        requisites: vec![],
        other_links: None,
        truncated: Truncated {
            links: report.is_cut || report.too_long > 0 || resolver.truncated,
            ..Truncated::default()
        },
        sites: resolver.into_sites(),
        base: input.url.clone(),
        canonical: None,
        language: None,
        description: None,
        charset: UTF_8.name(),
        charset_source: CharsetSource::Declared,
        robots: RobotsDirectives::default(),
        text_bytes: 0,
        needs_render: false,
        main_text: None,
        markdown: None,
        signature: None,
        facts: None,
        html: None,
    };
    Ok((extracted, bytes))
}
