//! Fetch profile of a crawl on the command line.

use clap::Args;
use orbweaver_messages::{CrawlPurpose, FetchProfile, Markdown};
use orbweaver_scope::Revision;
use orbweaver_settings::Rate;

use crate::{
    cli::{CrawlArgs, MARKDOWN, one_of, size},
    crawl::{definition, progress::number, proxy, purpose},
    exit::Failure,
};

/// Politeness delay at the highest permitted rate of a crawl, in milliseconds.
const SHORTEST_MS: u64 = 100;

/// Options of the fetch profile of a crawl.
#[derive(Debug, Args)]
pub struct ProfileOptions {
    /// User agent sent with every request of the crawl; its first product name is looked up in robots.txt [default: as
    /// the services are configured, also for the following options].
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Contact for site owners: a URL or mailto: address, appended to the user agent.
    #[arg(long, value_name = "TEXT")]
    pub contact: Option<String>,
    /// Send a header with every request of the crawl, as `Name: value`, or the headers of a file, one per line, as
    /// `@FILE` (may be repeated). For an existing crawl, replaces all earlier headers. They are stored in
    /// crawl.control, where every reader of the log can see them: secrets, such as Authorization, are refused.
    #[arg(long, value_name = "HEADER|@FILE")]
    pub header: Vec<String>,
    /// Maximum rate of the crawl's requests to one site, such as 2/s, 30/m, or an interval such as 2s: one per day to
    /// 10/s. A site's own rate, a crawl-delay and refusals still slow it down.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Maximum size of a decoded body, such as 1MiB, if it is below the limit of the services; the rest is cut off.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_body: Option<u64>,
    /// Also accept other types than HTML and XHTML: `type/subtype`, `type/*` or `*/*`, separated by commas (may be
    /// repeated). Their bodies are in crawl.pages; they have no document and no links. For an existing crawl, replaces
    /// all earlier types; `text/html` accepts HTML alone.
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// Do not request robots.txt. Only for sites of your own.
    #[arg(long)]
    pub ignore_robots: bool,
    /// Purpose of the crawl: pages that their sites refuse for it are not kept, and end as refused (`purpose`). Several are
    /// separated by commas (may be repeated). For an existing crawl, replaces all earlier purposes; `none` ends that.
    #[arg(long, value_name = "PURPOSE", value_delimiter = ',', value_parser = one_of(&purpose::ALL, purpose::name))]
    pub purpose: Vec<Option<CrawlPurpose>>,
    /// Send the requests of the crawl through this proxy: http://, https://, socks5:// or socks5h:// with
    /// `[USER:PASSWORD@]HOST[:PORT]`; `none` sends them without the proxy of the services. A URL with a password is accepted
    /// only in a file, as `@FILE`. It is stored in crawl.control, where every reader of the log can see it; `fetcher.proxy`
    /// of the services is not.
    #[arg(long, value_name = "URL|@FILE")]
    pub proxy: Option<String>,
    /// Read the sitemaps of sites: those that robots.txt names, else /sitemap.xml; `--sitemaps=false` ends that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub sitemaps: Option<bool>,
    /// Read the feeds (RSS, Atom, JSON Feed) that pages declare; `--feeds=false` ends that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub feeds: Option<bool>,
    /// Archive all responses as WARC files, which orbweaver-archiver writes: pages, redirects, errors, bodies of any type,
    /// robots.txt; `--warc=false` ends that.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub warc: Option<bool>,
    /// Also archive what pages need to be shown, wherever it is: pictures, style sheets, scripts, fonts, media and frames; at
    /// most N of each page or style sheet [default with the option: 500]; `--requisites=0` ends that. Only --exclude applies
    /// to it. Requires --warc.
    #[arg(long, value_name = "N", requires = "warc", num_args = 0..=1, require_equals = true, default_missing_value = "500")]
    pub requisites: Option<u32>,
    /// Add the decoded body to each document; `--html=false` leaves it out if the services add it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub html: Option<bool>,
    /// Add the main text to each document: without navigation and other boilerplate, with paragraphs;
    /// `--main-text=false` leaves it out if the services add it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub main_text: Option<bool>,
    /// Add the main text to each document as Markdown; `--markdown=images` also has the images, and `--markdown=none`
    /// leaves it out if the services add it.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "text", value_parser = one_of(&MARKDOWN, Markdown::name))]
    pub markdown: Option<Markdown>,
    /// Add facts of the page to each document: dates, authors, Open Graph, JSON-LD, microdata, detected language and more.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub facts: Option<bool>,
    /// Add the other links of the page to each document: pictures with their `alt`, scripts, styles, media, `link` elements;
    /// `--other-links=false` leaves them out if the services add them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub other_links: Option<bool>,
    /// Mark documents whose main text is nearly that of an earlier page of their site: `near_duplicate_of`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub near_duplicates: Option<bool>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().filter(|rate: &Rate| rate.interval_ms >= SHORTEST_MS);
    rate.ok_or_else(|| "expected `2/s`, `30/m` or an interval such as `2s`, from one per day to 10/s".to_owned())
}

impl ProfileOptions {
    /// Returns the given settings; all others are absent.
    ///
    /// # Errors
    /// Fails if a setting cannot be used, a header may be a secret, or a file with headers cannot be read.
    pub(super) fn given(&self) -> Result<FetchProfile, Failure> {
        let given = FetchProfile {
            user_agent: self.user_agent.clone(),
            contact: self.contact.clone(),
            headers: definition::public_headers(&self.header)?,
            interval_ms: self.rate.map(|rate| rate.interval_ms),
            max_body_bytes: self.max_body,
            accept: self.accept.clone(),
            ignore_robots: self.ignore_robots,
            sitemaps: self.sitemaps,
            feeds: self.feeds,
            archive: self.warc,
            requisites: self.requisites,
            html: self.html,
            main_text: self.main_text,
            markdown: self.markdown,
            facts: self.facts,
            other_links: self.other_links,
            near_duplicates: self.near_duplicates,
            purpose: purpose::given(&self.purpose)?,
            proxy: proxy::given(self.proxy.as_deref())?,
        };
        definition::check_settings(Revision { profile: Some(given.clone()), ..Revision::default() })?;
        Ok(given)
    }
}

impl From<&CrawlArgs> for ProfileOptions {
    /// Takes those options of `orbweaver crawl` that are settings of a profile.
    fn from(args: &CrawlArgs) -> Self {
        Self {
            user_agent: args.user_agent.clone(),
            contact: args.contact.clone(),
            header: args.header.clone(),
            rate: args.rate.map(|rate| Rate { interval_ms: rate.interval_ms() }),
            max_body: None,
            accept: vec![],
            ignore_robots: args.ignore_robots,
            purpose: args.purpose.clone(),
            proxy: args.proxy.clone(),
            sitemaps: args.sitemaps.then_some(true),
            feeds: args.feeds.then_some(true),
            warc: args.warc.as_ref().map(|_| true),
            requisites: args.requisites,
            html: args.html.then_some(true),
            main_text: args.main_text.then_some(true),
            markdown: args.markdown,
            facts: args.facts.then_some(true),
            other_links: args.other_links.then_some(true),
            near_duplicates: args.near_duplicates.then_some(true),
        }
    }
}

/// Returns a profile with the given settings in place of the present ones. Given headers and types replace all present
/// ones.
pub(super) fn merge(present: FetchProfile, given: &FetchProfile) -> FetchProfile {
    let given = given.clone();
    FetchProfile {
        user_agent: given.user_agent.or(present.user_agent),
        contact: given.contact.or(present.contact),
        headers: if given.headers.is_empty() { present.headers } else { given.headers },
        interval_ms: given.interval_ms.or(present.interval_ms),
        max_body_bytes: given.max_body_bytes.or(present.max_body_bytes),
        accept: if given.accept.is_empty() { present.accept } else { given.accept },
        ignore_robots: given.ignore_robots || present.ignore_robots,
        sitemaps: given.sitemaps.or(present.sitemaps),
        feeds: given.feeds.or(present.feeds),
        archive: given.archive.or(present.archive),
        requisites: given.requisites.or(present.requisites),
        html: given.html.or(present.html),
        main_text: given.main_text.or(present.main_text),
        markdown: given.markdown.or(present.markdown),
        facts: given.facts.or(present.facts),
        other_links: given.other_links.or(present.other_links),
        near_duplicates: given.near_duplicates.or(present.near_duplicates),
        purpose: given.purpose.or(present.purpose),
        proxy: given.proxy.or(present.proxy),
    }
}

/// Returns the lines of `crawls show` for the settings that the profile has.
pub(super) fn lines(profile: &FetchProfile) -> Vec<String> {
    let FetchProfile {
        user_agent,
        contact,
        headers,
        interval_ms,
        max_body_bytes,
        accept,
        ignore_robots,
        sitemaps,
        feeds,
        archive,
        requisites,
        html,
        main_text,
        markdown,
        facts,
        other_links,
        near_duplicates,
        purpose,
        proxy,
    } = profile;
    let yes_or_no = |given: Option<bool>| given.map(|given| if given { "yes" } else { "no" }.to_owned());
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let settings = [
        ("user agent", user_agent.clone()),
        ("contact", contact.clone()),
        ("headers", (!headers.is_empty()).then(|| headers.join("\n               "))),
        ("rate", interval_ms.map(|ms| format!("a request every {ms} ms at most, to each site"))),
        ("max body", max_body_bytes.map(|bytes| format!("{} bytes", number(bytes)))),
        ("also accepts", (!accept.is_empty()).then(|| accept.join(", "))),
        ("robots.txt", ignore_robots.then(|| "ignored".to_owned())),
        ("sitemaps", yes_or_no(*sitemaps)),
        ("feeds", yes_or_no(*feeds)),
        ("archive", yes_or_no(*archive)),
        ("requisites", requisites.map(|most| format!("{} of each page at most", number(most.into())))),
        ("html", yes_or_no(*html)),
        ("main text", yes_or_no(*main_text)),
        ("markdown", markdown.map(|markdown| markdown.name().to_owned())),
        ("facts", yes_or_no(*facts)),
        ("other links", yes_or_no(*other_links)),
        ("near duplicates", yes_or_no(*near_duplicates)),
        ("purpose", purpose.as_deref().map(purpose::shown)),
        ("proxy", proxy.as_ref().map(ToString::to_string)),
    ];
    settings.into_iter().filter_map(|(name, value)| Some(format!("  {name:<12} {}", value?))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::crawl_args;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        profile: ProfileOptions,
    }

    fn options(words: &[&str]) -> Result<ProfileOptions, String> {
        let parsed = Command::try_parse_from(["crawls"].iter().chain(words));
        parsed.map(|command| command.profile).map_err(|error| error.to_string())
    }

    fn given(words: &[&str]) -> FetchProfile {
        options(words).unwrap().given().unwrap()
    }

    #[test]
    fn a_given_setting_changes_and_the_others_of_a_profile_stay() {
        let first = ["--user-agent", "ShopBot/1", "--rate", "30/m", "--header", "X-Team: a", "--header", "X-Other: b"];
        let first = merge(FetchProfile::default(), &given(&first));
        assert_eq!(first.interval_ms, Some(2000));
        let second = given(&["--contact", "mailto:a@example.org", "--header", "Accept-Language: de", "--html=false"]);
        let second = merge(first, &second);
        let third = [
            "--max-body",
            "1MiB",
            "--ignore-robots",
            "--sitemaps",
            "--feeds=false",
            "--warc",
            "--requisites",
            "--html",
            "--accept",
            "image/*,application/pdf",
        ];
        let third = merge(
            second.clone(),
            &given(
                &[
                    &third[..],
                    &["--main-text", "--markdown=images", "--facts=false", "--other-links"],
                    &["--near-duplicates"],
                ]
                .concat(),
            ),
        );
        let language = [("accept-language".to_owned(), "de".to_owned())];
        let expected = FetchProfile {
            user_agent: Some("ShopBot/1".to_owned()),
            contact: Some("mailto:a@example.org".to_owned()),
            headers: language.into(),
            interval_ms: Some(2000),
            html: Some(false),
            ..FetchProfile::default()
        };
        assert_eq!(second, expected);
        let (max_body_bytes, html, main_text) = (Some(1 << 20), Some(true), Some(true));
        let accept = vec!["image/*".to_owned(), "application/pdf".to_owned()];
        let (markdown, facts) = (Some(Markdown::Images), Some(false));
        let (other_links, near_duplicates) = (Some(true), Some(true));
        let of_documents = FetchProfile { html, main_text, markdown, facts, ..expected };
        let of_documents = FetchProfile { other_links, near_duplicates, ..of_documents };
        let of_sites = FetchProfile { ignore_robots: true, sitemaps: Some(true), feeds: Some(false), ..of_documents };
        let of_sites = FetchProfile { archive: Some(true), requisites: Some(500), ..of_sites };
        assert_eq!(third, FetchProfile { max_body_bytes, accept, ..of_sites });
        assert_eq!(merge(third.clone(), &given(&[])), third);
        let without = merge(third.clone(), &given(&["--other-links=false"]));
        assert_eq!(without, FetchProfile { other_links: Some(false), ..third.clone() });
        let purposes = |profile: &FetchProfile| profile.purpose.clone();
        let fourth = merge(third, &given(&["--purpose", "archive,search", "--purpose=search"]));
        assert_eq!(purposes(&fourth), Some(vec![CrawlPurpose::Search, CrawlPurpose::Archive]));
        assert_eq!(purposes(&merge(fourth.clone(), &given(&[]))), purposes(&fourth));
        assert_eq!(purposes(&merge(fourth, &given(&["--purpose=none"]))), Some(vec![]));
    }

    #[test]
    fn a_rate_is_at_most_ten_per_second_and_at_least_one_per_day() {
        let rates = [("10/s", 100), ("10", 100), ("0.001", 1_000_000), ("2s", 2000), ("1day", 86_400_000)];
        for (text, interval_ms) in rates {
            assert_eq!(given(&["--rate", text]).interval_ms, Some(interval_ms), "{text}");
        }
        for text in ["11", "99ms", "unlimited", "25h", "0", "fast"] {
            let error = options(&["--rate", text]).unwrap_err();
            assert!(error.contains("--rate") && error.contains("to 10/s"), "{text}: {error}");
        }
        for text in ["0", "much"] {
            assert!(options(&["--max-body", text]).unwrap_err().contains("--max-body"), "{text}");
        }
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_refused_with_its_option() {
        for (option, value) in [
            ("--user-agent", " "),
            ("--contact", ""),
            ("--header", "Host: x"),
            ("--header", "x"),
            ("--accept", "image/*,pdf"),
            ("--purpose", "none,search"),
            ("--proxy", "http://me:hunter2@proxy.example/x"),
        ] {
            let error = options(&[option, value]).unwrap().given().unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert!(error.code() == 64 && error.to_string().starts_with(&format!("{option}: ")), "{error}");
        }
        for rate in ["unlimited", "11"] {
            let error = ProfileOptions::from(&*crawl_args(&["--rate", rate])).given().unwrap_err();
            assert!(error.code() == 64 && error.to_string().starts_with("--rate: "), "{error}");
        }
    }

    #[test]
    fn a_header_that_may_be_a_secret_is_refused_in_a_file_too_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        std::fs::write(&file, "X-Team: search\nX-Api-Key: hunter2\n").unwrap();
        for header in [format!("@{}", file.display()), "x-api-key: hunter2".to_owned()] {
            let error = options(&["--header", &header]).unwrap().given().unwrap_err().to_string();
            assert!(error.to_lowercase().contains("`x-api-key`") && error.contains("`fetcher.headers`"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        std::fs::write(&file, "X-Team: search\n").unwrap();
        let team = [("x-team".to_owned(), "search".to_owned())];
        assert_eq!(given(&["--header", &format!("@{}", file.display())]).headers, team.into());
    }

    #[test]
    fn a_setting_has_a_line_only_if_the_profile_has_it() {
        assert_eq!(lines(&FetchProfile::default()), [""; 0]);
        let shown = ["--rate", "2/s", "--max-body", "2KiB", "--header", "X-A: 1", "--header", "X-B: 2", "--accept"];
        let shown = lines(&given(&[&shown[..], &["image/*,application/pdf"]].concat()));
        let expected = [
            "  headers      x-a: 1\n               x-b: 2",
            "  rate         a request every 500 ms at most, to each site",
            "  max body     2,048 bytes",
            "  also accepts image/*, application/pdf",
        ];
        assert_eq!(shown, expected);
        let proxied = given(&["--proxy", "http://me@proxy.example:3128"]);
        assert_eq!(lines(&proxied), ["  proxy        http://me@proxy.example:3128"]);
        assert_eq!(lines(&merge(proxied, &given(&["--proxy=none"]))), ["  proxy        none"]);
    }
}
