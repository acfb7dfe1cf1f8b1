//! Settings of a crawl: stored in `state/crawl.json`, and compared when the crawl is resumed.

use std::path::{Path, PathBuf};

use orbweaver_messages::{CrawlOrder, CrawlPurpose, Markdown, Millis, ProxyUrl, RevisitPolicy, Scope, Traps};
use orbweaver_politeness::UserAgent;
use orbweaver_scope::Revision;
use orbweaver_url::{Policy, WideDomains};
use serde::{Deserialize, Serialize};

use super::{archive_to::ArchiveTo, definition, headers, order, proxy, purpose, revisit};
use crate::{
    cli::{CrawlArgs, Rate, patterns},
    durable::write_whole,
    exit::Failure,
    export::rfc3339,
};

/// Layout version of the state directory that this program reads and writes.
const FORMAT: u32 = 2;

/// Settings of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Layout version of the state directory.
    pub format: u32,
    /// Seeds that were given as arguments, as requested.
    pub urls: Vec<String>,
    /// File with more seeds.
    pub seeds: Option<PathBuf>,
    /// Whether the crawl is of the demo web.
    pub demo: bool,
    /// Whether all seeds are in the log.
    pub seeded: bool,
    /// Whether the crawl is complete.
    pub complete: bool,
    /// [`CrawlArgs`] describes this option and the following ones.
    pub max_pages: Option<u64>,
    pub max_depth: Option<u16>,
    pub scope: Scope,
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    #[serde(default)]
    pub traps: Traps,
    #[serde(default)]
    pub order: CrawlOrder,
    #[serde(default)]
    pub check_external: bool,
    #[serde(default)]
    pub max_pages_per_site: Option<u64>,
    #[serde(default)]
    pub max_bytes: Option<u64>,
    #[serde(default)]
    pub ends_at_ms: Option<Millis>,
    #[serde(default)]
    pub revisit: Option<RevisitPolicy>,
    #[serde(default)]
    pub canonical: Policy,
    /// Domains whose hosts are sites of their own, sorted.
    #[serde(default)]
    pub wide_domains: Vec<String>,
    pub rate: Rate,
    pub concurrency: u16,
    /// Complete user agent.
    pub user_agent: String,
    /// Additional request headers, and files with headers (`@FILE`). Secrets are only in such files.
    pub header: Vec<String>,
    pub ignore_robots: bool,
    #[serde(default)]
    pub purpose: Vec<CrawlPurpose>,
    /// Proxy, without its password.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Proxy as given.
    #[serde(skip)]
    pub proxy_url: Option<ProxyUrl>,
    #[serde(default)]
    pub sitemaps: bool,
    #[serde(default)]
    pub feeds: bool,
    #[serde(default)]
    pub warc: bool,
    #[serde(default)]
    pub warc_upload: Option<String>,
    #[serde(default)]
    pub requisites: Option<u32>,
    pub allow_private: bool,
    /// Networks whose addresses are permitted.
    #[serde(default)]
    pub allow_networks: Vec<String>,
    /// File with additional certificate authorities.
    #[serde(default)]
    pub ca_file: Option<String>,
    pub follow_nofollow: bool,
    pub html: bool,
    #[serde(default)]
    pub main_text: bool,
    #[serde(default)]
    pub markdown: Markdown,
    #[serde(default)]
    pub facts: bool,
    #[serde(default)]
    pub other_links: bool,
    #[serde(default)]
    pub near_duplicates: bool,
}

impl Settings {
    /// Creates the settings of a new crawl.
    ///
    /// # Errors
    /// Fails if a regular expression or a header is malformed, a header may be a secret, or a file with headers cannot
    /// be read.
    pub fn new(args: &CrawlArgs, urls: Vec<String>) -> Result<Self, Failure> {
        let header = headers::accepted(&args.header)?;
        headers::read(&header)?;
        let proxy_url = proxy::given(args.proxy.as_deref())?;
        let settings = Self {
            format: FORMAT,
            urls,
            seeds: args.seeds.clone(),
            demo: args.demo,
            seeded: false,
            complete: false,
            max_pages: args.extent.max_pages.and_then(|limit| limit.0),
            max_pages_per_site: args.extent.max_pages_per_site.and_then(|limit| limit.0),
            max_bytes: args.extent.max_bytes.and_then(|limit| limit.0),
            ends_at_ms: args.extent.until.and_then(|limit| limit.0),
            max_depth: args.extent.max_depth.and_then(|limit| limit.0),
            check_external: args.extent.check_external.unwrap_or(false),
            // All three hosts of the demo web belong to the demo.
            scope: args.extent.scope.unwrap_or(if args.demo { Scope::Any } else { Scope::Host }),
            include: patterns(&args.extent.include).unwrap_or_default(),
            exclude: patterns(&args.extent.exclude).unwrap_or_default(),
            traps: args.extent.traps.unwrap_or_default(),
            order: args.extent.order.unwrap_or_default(),
            revisit: args.extent.revisit.clone().and_then(|revisit| revisit.0),
            canonical: args.canonical.unwrap_or_default(),
            wide_domains: wide_domains(&args.wide_domain)?.iter().map(str::to_owned).collect(),
            rate: args.rate.unwrap_or(if args.demo { Rate::PerSecond(50.0) } else { Rate::PerSecond(1.0) }),
            concurrency: args.concurrency.unwrap_or(64),
            user_agent: user_agent(args)?,
            header,
            ignore_robots: args.ignore_robots,
            purpose: purpose::given(&args.purpose)?.unwrap_or_default(),
            proxy: proxy_url.as_ref().map(ToString::to_string),
            proxy_url,
            sitemaps: args.sitemaps,
            feeds: args.feeds,
            warc: args.warc.is_some(),
            warc_upload: args.warc.as_ref().and_then(ArchiveTo::bucket),
            requisites: args.requisites,
            allow_private: args.intranet.allow_private || args.demo,
            allow_networks: args.intranet.networks(),
            ca_file: args.intranet.authorities()?,
            follow_nofollow: args.follow_nofollow,
            html: args.html,
            main_text: args.main_text,
            markdown: args.markdown.unwrap_or_default(),
            facts: args.facts,
            other_links: args.other_links,
            near_duplicates: args.near_duplicates,
        };
        Revision::default().of(&definition::of(&settings, 0, 0)).map_err(|error| definition::refused(&error))?;
        Ok(settings)
    }

    /// Applies the options that may change when a crawl is resumed: rate, concurrency, pages, patterns, depth,
    /// order, revisits, and a wider scope.
    ///
    /// # Errors
    /// Fails if any other option differs, naming both values, if the change would require a complete crawl to
    /// continue, if a header may be a secret, or if one is missing.
    pub fn resume(&mut self, args: &CrawlArgs, urls: &[String]) -> Result<(), Failure> {
        let mut check = Check { difference: None };
        if !urls.is_empty() {
            check.same("seed URLs", &self.urls.join(" "), &urls.join(" "));
        }
        check.given("--seeds", self.seeds.as_ref().map(|p| p.display()), args.seeds.as_ref().map(|p| p.display()));
        check.given("--markdown", Some(self.markdown.name()), args.markdown.map(Markdown::name));
        let upload = args.warc.as_ref().and_then(ArchiveTo::bucket);
        check.given("--warc", self.warc_upload.as_ref(), upload.as_ref());
        check.given("--requisites", self.requisites, args.requisites);
        check.given("--ca-file", self.ca_file.as_ref(), args.intranet.ca_file.as_ref());
        check.list("--allow-network", &self.allow_networks, &args.intranet.networks());
        let purpose = purpose::given(&args.purpose)?;
        check.given("--purpose", Some(purpose::shown(&self.purpose)), purpose.as_deref().map(purpose::shown));
        let shown = |proxy: Option<&String>| proxy.map_or_else(|| "not given".to_owned(), String::clone);
        self.proxy_url = proxy::given(args.proxy.as_deref())?;
        let given = self.proxy_url.as_ref().map(ToString::to_string);
        check.same("--proxy", &shown(self.proxy.as_ref()), &shown(given.as_ref()));
        check.given("--traps", Some(self.traps.name()), args.extent.traps.map(Traps::name));
        check.given("--canonical", Some(self.canonical), args.canonical);
        let wide: Vec<_> = wide_domains(&args.wide_domain)?.iter().map(str::to_owned).collect();
        check.list("--wide-domain", &self.wide_domains, &wide);
        let header = headers::accepted(&args.header)?;
        check.list("--header", &self.header, &header);
        if args.user_agent.is_some() || args.contact.is_some() {
            check.same("--user-agent", &self.user_agent, &user_agent(args)?);
        }
        for (option, was, is) in [
            ("--ignore-robots", self.ignore_robots, args.ignore_robots),
            ("--sitemaps", self.sitemaps, args.sitemaps),
            ("--feeds", self.feeds, args.feeds),
            ("--warc", self.warc, args.warc.is_some()),
            ("--allow-private", self.allow_private, args.intranet.allow_private),
            ("--follow-nofollow", self.follow_nofollow, args.follow_nofollow),
            ("--html", self.html, args.html),
            ("--main-text", self.main_text, args.main_text),
            ("--facts", self.facts, args.facts),
            ("--other-links", self.other_links, args.other_links),
            ("--near-duplicates", self.near_duplicates, args.near_duplicates),
            ("--demo", self.demo, args.demo),
        ] {
            if is {
                check.same(option, if was { "given" } else { "not given" }, "given");
            }
        }
        if let Some(difference) = check.difference {
            return Err(Failure::Usage(format!(
                "this crawl was created with other settings: {difference}; only --rate, --concurrency, --max-pages, \
                 --max-pages-per-site, --max-bytes, --until, --revisit, --max-depth, --check-external, --include, --exclude and a wider --scope may change; for a new crawl give another --out"
            )));
        }
        let was = self.clone();
        self.revise(args)?;
        if let Some(difference) = self.differs_from(&was).filter(|_| self.complete) {
            return Err(Failure::Usage(format!(
                "{difference}, but this crawl is complete, and the state needed to resume it was deleted: \
                 start a new crawl with another --out"
            )));
        }
        if !header.is_empty() {
            self.header = header;
        }
        if !self.complete {
            headers::read(&self.header)?;
        }
        self.rate = args.rate.unwrap_or(self.rate);
        self.concurrency = args.concurrency.unwrap_or(self.concurrency);
        Ok(())
    }

    /// Returns the first difference among the options that may change, with both values.
    fn differs_from(&self, was: &Self) -> Option<String> {
        fn shown<T: ToString>(limit: Option<T>) -> String {
            limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
        }
        let mut check = Check { difference: None };
        check.same("--scope", was.scope.name(), self.scope.name());
        check.same("--include", &was.include.join(" "), &self.include.join(" "));
        check.same("--exclude", &was.exclude.join(" "), &self.exclude.join(" "));
        check.same("--order", &order::shown(&was.order), &order::shown(&self.order));
        check.same("--revisit", &revisit::shown(was.revisit.as_ref()), &revisit::shown(self.revisit.as_ref()));
        check.same("--max-depth", &shown(was.max_depth), &shown(self.max_depth));
        check.same("--check-external", &was.check_external.to_string(), &self.check_external.to_string());
        check.same("--max-pages", &shown(was.max_pages), &shown(self.max_pages));
        check.same("--max-pages-per-site", &shown(was.max_pages_per_site), &shown(self.max_pages_per_site));
        check.same("--max-bytes", &shown(was.max_bytes), &shown(self.max_bytes));
        check.same("--until", &shown(was.ends_at_ms.map(rfc3339)), &shown(self.ends_at_ms.map(rfc3339)));
        check.difference
    }

    /// Applies a changed scope.
    fn revise(&mut self, args: &CrawlArgs) -> Result<(), Failure> {
        let revision = Revision { traps: None, ..args.extent.revision() };
        let revised = revision.of(&definition::of(self, 0, 0)).map_err(|error| definition::refused(&error))?;
        self.scope = args.extent.scope.unwrap_or(self.scope);
        (self.include, self.exclude) = (revised.include, revised.exclude);
        (self.max_depth, self.max_pages) = (revised.max_depth, revised.max_pages);
        self.check_external = revised.check_external;
        self.max_pages_per_site = revised.max_pages_per_site;
        (self.max_bytes, self.ends_at_ms) = (revised.max_bytes, revised.ends_at_ms);
        (self.order, self.revisit) = (revised.order, revised.revisit);
        Ok(())
    }

    /// Reads the settings of an existing crawl; returns `None` if there is none.
    pub fn read(state: &Path) -> Result<Option<Self>, Failure> {
        let path = state.join("crawl.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::Output(format!("{}: {error}", path.display()))),
        };
        let settings: Self = serde_json::from_slice(&text)
            .map_err(|error| Failure::Output(format!("{}: is not the state of a crawl: {error}", path.display())))?;
        if settings.format != FORMAT {
            let message = "was written by another version of orbweaver: use that version, or give another --out";
            return Err(Failure::Output(format!(
                "{}: {message} (format {}, not {FORMAT})",
                path.display(),
                settings.format
            )));
        }
        Ok(Some(settings))
    }

    /// Writes the settings atomically.
    pub fn write(&self, state: &Path) -> Result<(), Failure> {
        write_whole(&state.join("crawl.json"), self)
    }
}

struct Check {
    difference: Option<String>,
}

impl Check {
    fn same(&mut self, what: &str, was: &str, is: &str) {
        if was != is && self.difference.is_none() {
            self.difference = Some(format!("{what} was `{was}` and is now `{is}`"));
        }
    }

    fn given<T: ToString>(&mut self, what: &str, was: Option<T>, is: Option<T>) {
        if let Some(is) = is {
            let was = was.map_or_else(|| "not given".to_owned(), |was| was.to_string());
            self.same(what, &was, &is.to_string());
        }
    }

    fn list(&mut self, what: &str, was: &[String], is: &[String]) {
        if !is.is_empty() {
            self.same(what, &was.join(" "), &is.join(" "));
        }
    }
}

/// Returns the wide domains that were given.
pub fn wide_domains(given: &[String]) -> Result<WideDomains, Failure> {
    WideDomains::new(given).map_err(|error| Failure::Usage(format!("--wide-domain {error}")))
}

fn user_agent(args: &CrawlArgs) -> Result<String, Failure> {
    let contact = args.contact.as_deref().map(|contact| format!(" (+{contact})")).unwrap_or_default();
    let product = args.user_agent.clone().unwrap_or_else(|| UserAgent::default().to_string());
    let agent = format!("{product}{contact}");
    let printable = |c: char| c == ' ' || c.is_ascii_graphic();
    if agent.trim().is_empty() || !agent.chars().all(printable) {
        return Err(Failure::Usage(format!("--user-agent `{agent}`: expected one or more printable ASCII characters")));
    }
    Ok(agent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::crawl_args;

    #[test]
    fn a_crawl_of_another_format_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::new(&crawl_args(&["http://a.test/"]), vec![]).unwrap();
        let settings = Settings { format: FORMAT - 1, ..settings };
        settings.write(dir.path()).unwrap();
        let error = Settings::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("use that version, or give another --out (format 1, not 2)"), "{error}");
    }

    #[test]
    fn an_archive_in_a_bucket_stays_there_when_its_crawl_is_resumed() {
        let args = |warc: &'static str| crawl_args(&["http://a.test/", warc]);
        let settings = Settings::new(&args("--warc=s3://archive/a"), vec![]).unwrap();
        assert_eq!((settings.warc, settings.warc_upload.as_deref()), (true, Some("s3://archive/a")));
        let resume = |warc| settings.clone().resume(&args(warc), &[]).map_err(|error| error.to_string());
        assert_eq!([resume("--warc"), resume("--warc=s3://archive/a/")], [Ok(()), Ok(())]);
        let error = resume("--warc=s3://archive/b").unwrap_err();
        assert!(error.contains("--warc was `s3://archive/a` and is now `s3://archive/b`"), "{error}");
    }
}
