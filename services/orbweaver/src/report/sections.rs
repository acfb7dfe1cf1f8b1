//! Sections of the report, from the sorted results.

use super::{
    args::Section,
    chains::{Chain, follow},
    classify::{End, Verdict},
    error::ReportError,
    gather::{Gathered, Source, StoredLink},
    print::{Link, Linked, Page, Printer, Width},
    slow::slow_pages,
    sorted::parts,
};

/// Numbers of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Broken URLs, and URLs that redirect there.
    pub(super) broken: u64,
    /// Links to them.
    pub(super) broken_links: u64,
    /// Linked URLs that redirect.
    pub(super) redirects: u64,
    /// Links to them.
    pub(super) redirected_links: u64,
    /// URLs that could not be checked.
    pub(super) unchecked: u64,
    /// Titles that several pages of a site have.
    pub(super) shared_titles: u64,
    /// Pages with such a title.
    pub(super) pages_with_shared_title: u64,
    /// Pages without a title.
    pub(super) pages_without_title: u64,
    /// Slow pages.
    pub(super) slow: u64,
}

/// Prints a section, and adds its numbers to `totals`.
pub(super) fn print(
    section: Section,
    (source, gathered): (Source<'_>, &Gathered),
    printer: &mut dyn Printer,
    totals: &mut Totals,
) -> Result<(), ReportError> {
    printer.begin()?;
    match section {
        Section::Titles => print_titles(source, gathered, printer, totals)?,
        Section::Slow => {
            for page in slow_pages(&gathered.slow) {
                source.check()?;
                let (url, fetch) = page?;
                totals.slow += 1;
                printer.slow(&url, &fetch)?;
            }
        }
        Section::Broken | Section::Redirects => {
            for entry in gathered.ends.prefix::<End>(b"") {
                source.check()?;
                let (key, end) = entry?;
                let [url] = parts(&key);
                let chain = follow(&url, &end, |url| gathered.ends.get::<End>(url.as_bytes()))?;
                print_url(section, (source, gathered), &Linked::new(url, end.via, chain), (printer, totals))?;
            }
        }
    }
    Ok(printer.end()?)
}

fn print_url(
    section: Section,
    (source, gathered): (Source<'_>, &Gathered),
    linked: &Linked,
    (printer, totals): (&mut dyn Printer, &mut Totals),
) -> Result<(), ReportError> {
    let Chain { hops, verdict, .. } = &linked.chain;
    let is_direct = hops.is_empty();
    if section == Section::Broken {
        totals.unchecked += u64::from(is_direct && *verdict == Verdict::Unchecked);
    }
    let is_of_section = if section == Section::Broken { verdict.is_broken() } else { !is_direct };
    if !is_of_section {
        return Ok(());
    }
    let mut width = Width::default();
    for link in links(gathered, &linked.url) {
        source.check()?;
        width.add(&link?);
    }
    // A broken URL is reported even if no page links to it: it is a seed, from a sitemap, or the target of a redirect.
    if width.links == 0 && !is_direct {
        return Ok(());
    }
    let (urls, all_links) = match section {
        Section::Broken => (&mut totals.broken, &mut totals.broken_links),
        _ => (&mut totals.redirects, &mut totals.redirected_links),
    };
    *urls += 1;
    *all_links += width.links;
    printer.url(linked, &width)?;
    for link in links(gathered, &linked.url) {
        source.check()?;
        printer.link(linked, &link?, &width)?;
    }
    Ok(())
}

/// Returns the links to a URL that are on the last version of their page, by page.
fn links<'a>(gathered: &'a Gathered, url: &'a str) -> impl Iterator<Item = Result<Link, ReportError>> + 'a {
    let prefix = [url.as_bytes(), b"\0"].concat();
    let entries = gathered.links.prefix::<StoredLink>(&prefix);
    entries.filter_map(move |entry| {
        let link = || -> Result<Option<Link>, ReportError> {
            let (key, StoredLink { visit, url: found, text, rel }) = entry?;
            let [_, page, _] = parts(&key);
            let is_current = gathered.is_current(&page, visit)?;
            Ok(is_current.then(|| Link { page, url: found.unwrap_or_else(|| url.to_owned()), text, rel }))
        };
        link().transpose()
    })
}

fn print_titles(
    source: Source<'_>,
    gathered: &Gathered,
    printer: &mut dyn Printer,
    totals: &mut Totals,
) -> Result<(), ReportError> {
    let mut group = Group::default();
    for entry in gathered.titles.prefix::<u32>(b"") {
        source.check()?;
        let (key, visit) = entry?;
        let [site, title, url] = parts(&key);
        if gathered.is_current(&url, visit)? {
            group.add(Page { site, title, url }, printer, totals)?;
        }
    }
    Ok(())
}

/// Pages of a site with one title, in succession; only the first one is kept, until there is another.
#[derive(Default)]
struct Group {
    first: Option<Page>,
    is_printed: bool,
}

impl Group {
    fn add(&mut self, page: Page, printer: &mut dyn Printer, totals: &mut Totals) -> Result<(), ReportError> {
        let first = self.first.as_ref().filter(|first| (&first.site, &first.title) == (&page.site, &page.title));
        if let Some(first) = first {
            if !std::mem::replace(&mut self.is_printed, true) {
                totals.shared_titles += 1;
                totals.pages_with_shared_title += 1;
                printer.title(first)?;
                printer.page(first)?;
            }
            let pages = if page.title.is_empty() {
                &mut totals.pages_without_title
            } else {
                &mut totals.pages_with_shared_title
            };
            *pages += 1;
            return Ok(printer.page(&page)?);
        }
        // A single page without a title is reported, too.
        self.is_printed = page.title.is_empty();
        if self.is_printed {
            totals.pages_without_title += 1;
            printer.title(&page)?;
            printer.page(&page)?;
        }
        self.first = Some(page);
        Ok(())
    }
}
