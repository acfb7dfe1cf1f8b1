//! The canonical form of a URL, by the rules of a policy.
//!
//! It is only the key: the URL as found is what is requested. It is put together of parts, each of which is borrowed from
//! the URL as long as no rule changes it; a URL that is canonical already, as most are, is borrowed whole.
//!
//! The order of the rules matters, for a form must be its own canonical form: escapes first, so that names are read in one
//! form; then session identifiers, which may leave empty segments; then slashes; then the index. No rule leaves a dot
//! segment behind, and none decodes what would then be read as an escape.

use std::borrow::Cow;

use url::{Position, Url};

use crate::{
    Policy, Rule,
    escapes::{Place, normalize},
    path,
    query::ParameterRules,
    site::{registrable, without_root_dot},
};

/// The default policy, as it is pinned when a crawl is created.
pub const CANONICAL_POLICY: &str = "standard/1";

/// A URL in canonical form: the key under which a page is known. At most three times as long as the URL, since escaping
/// may lengthen it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CanonicalUrl(String);

impl CanonicalUrl {
    /// The canonical form as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical form as an owned text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// The canonical form of a URL under [`Policy::STANDARD`]. What belongs to a crawl asks the crawl's policy instead.
#[must_use]
pub fn canonical_text(url: &Url) -> Cow<'_, str> {
    Policy::STANDARD.canonical_text(url)
}

/// As [`canonical_text`], owned.
#[must_use]
pub fn canonicalize(url: &Url) -> CanonicalUrl {
    Policy::STANDARD.canonicalize(url)
}

impl Policy {
    /// The canonical form of an http or https URL. Borrows from `url` where it is canonical already.
    #[must_use]
    pub fn canonical_text(self, url: &Url) -> Cow<'_, str> {
        let parts = Parts::new(self, url);
        if let Some(end) = parts.unchanged(url) {
            return Cow::Borrowed(&url[..end]);
        }
        Cow::Owned(parts.join(url.as_str().len()))
    }

    /// The canonical form of an http or https URL, owned.
    #[must_use]
    pub fn canonicalize(self, url: &Url) -> CanonicalUrl {
        CanonicalUrl(self.canonical_text(url).into_owned())
    }
}

/// A canonical form before it is put together.
struct Parts<'a> {
    scheme: &'a str,
    /// User and password with the `@`, or nothing.
    user_info: &'a str,
    host: &'a str,
    /// The port with its colon, or nothing.
    port: &'a str,
    path: Cow<'a, str>,
    /// The query without its `?`.
    query: Option<Cow<'a, str>>,
    /// The fragment without its `#`.
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn new(policy: Policy, url: &'a Url) -> Self {
        let written_port = &url[Position::AfterHost..Position::BeforePath];
        let scheme = url.scheme();
        let scheme = if policy.has(Rule::MergeSchemes) && written_port.is_empty() { "http" } else { scheme };
        let port = match written_port {
            "" if policy.has(Rule::WritePorts) => {
                if scheme == "https" {
                    ":443"
                } else {
                    ":80"
                }
            }
            port => port,
        };
        let user_info = &url[Position::BeforeUsername..Position::BeforeHost];
        Self {
            scheme,
            user_info: if policy.has(Rule::DropUserInfo) { "" } else { user_info },
            host: host(policy, url.host_str().unwrap_or_default()),
            port,
            path: path(policy, url.path()),
            query: url.query().and_then(|text| query(policy, text)),
            fragment: url.fragment().filter(|text| policy.has(Rule::KeepHashBang) && is_hash_bang(text)),
        }
    }

    /// Where the URL is to be cut to be canonical, if that is all that it takes.
    fn unchanged(&self, url: &Url) -> Option<Position> {
        let before_path = self.scheme.len() + 3 + self.user_info.len() + self.host.len() + self.port.len();
        let unchanged = before_path == url[..Position::BeforePath].len()
            && self.scheme == url.scheme()
            && matches!(self.path, Cow::Borrowed(path) if path.len() == url.path().len())
            && self.fragment.is_none();
        match &self.query {
            None => unchanged.then_some(Position::AfterPath),
            Some(Cow::Borrowed(_)) => unchanged.then_some(Position::AfterQuery),
            Some(Cow::Owned(_)) => None,
        }
    }

    fn join(&self, about: usize) -> String {
        let mut text = String::with_capacity(about + 16);
        for part in [self.scheme, "://", self.user_info, self.host, self.port, &self.path] {
            text.push_str(part);
        }
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        if let Some(fragment) = self.fragment {
            text.push('#');
            text.push_str(fragment);
        }
        text
    }
}

/// Whether a fragment names a page, in the AJAX crawling scheme. `#!` alone is a link that leads nowhere.
pub(crate) fn is_hash_bang(fragment: &str) -> bool {
    fragment.len() > 1 && fragment.starts_with('!')
}

fn host(policy: Policy, host: &str) -> &str {
    let mut host = if policy.has(Rule::DropRootDot) { without_root_dot(host) } else { host };
    if policy.has(Rule::StripWww) && host.starts_with("www.") {
        // What is left must have the same registrable domain, else it would be another site.
        let site = registrable(without_root_dot(host)).map_or(usize::MAX, str::len);
        while let Some(rest) = host.strip_prefix("www.").filter(|rest| without_root_dot(rest).len() >= site) {
            host = rest;
        }
    }
    host
}

/// A change of a path; `None` where there is nothing to change.
type Step = fn(&str) -> Option<String>;

fn path(policy: Policy, text: &str) -> Cow<'_, str> {
    let mut path = Cow::Borrowed(text);
    if policy.has(Rule::NormalizeEscapes) {
        path = normalize(text, Place::Path);
    }
    let steps: [(Rule, Step); 3] = [
        (Rule::DropSessions, path::drop_sessions),
        (Rule::MergeSlashes, path::merge_slashes),
        (Rule::DropIndex, path::drop_index),
    ];
    for (rule, step) in steps {
        if policy.has(rule)
            && let Some(changed) = step(&path)
        {
            path = Cow::Owned(changed);
        }
    }
    path
}

fn query(policy: Policy, text: &str) -> Option<Cow<'_, str>> {
    if text.is_empty() {
        return (!policy.has(Rule::DropEmptyQuery)).then_some(Cow::Borrowed(text));
    }
    let mut query = if policy.has(Rule::FormQuery) {
        normalize(text, Place::Form)
    } else if policy.has(Rule::NormalizeEscapes) {
        normalize(text, Place::Query)
    } else {
        Cow::Borrowed(text)
    };
    if let Some(changed) = ParameterRules::of(policy).and_then(|rules| rules.apply(&query)) {
        // The `?` goes with the last parameter.
        if changed.is_empty() {
            return None;
        }
        query = Cow::Owned(changed);
    }
    Some(query)
}
