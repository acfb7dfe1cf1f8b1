//! The canonical form of a URL under the rules of a policy.
//!
//! The form is only the key: requests use the URL as found. Its parts borrow from the URL unless a rule changes them; a
//! URL that is already canonical, as most are, is borrowed whole.
//!
//! The order of the rules matters, since a form must be its own canonical form: first escapes, so that names have one
//! spelling; then session identifiers, whose removal may leave empty segments; then slashes; then the index. No rule
//! leaves a dot segment, and none decodes a byte that would then be read as part of an escape.

use std::borrow::Cow;

use url::{Position, Url};

use crate::{
    Policy, Rule,
    escapes::{Place, normalize},
    path, query,
    site::{registrable, without_root_dot},
};

/// Returns the canonical form of a URL under [`Policy::STANDARD`]. Code that belongs to a crawl uses the crawl's policy
/// instead.
#[must_use]
pub fn canonical_text(url: &Url) -> Cow<'_, str> {
    Policy::STANDARD.canonical_text(url)
}

impl Policy {
    /// Returns the canonical form of an http or https URL: the key of a page. Borrows from `url` if that is already
    /// canonical. At most three times as long as the URL, since escaping may lengthen it.
    #[must_use]
    pub fn canonical_text(self, url: &Url) -> Cow<'_, str> {
        let parts = Parts::new(self, url);
        if let Some(end) = parts.unchanged(url) {
            return Cow::Borrowed(&url[..end]);
        }
        Cow::Owned(parts.join(url.as_str().len()))
    }
}

/// Parts of a canonical form, before they are joined.
struct Parts<'a> {
    scheme: &'a str,
    /// User and password with the `@`, or empty.
    user_info: &'a str,
    host: &'a str,
    /// Port with its colon, or empty.
    port: &'a str,
    path: Cow<'a, str>,
    /// Query without its `?`.
    query: Option<Cow<'a, str>>,
    /// Fragment without its `#`.
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

    /// Returns the position at which truncating the URL gives its canonical form, if no other change is needed.
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

/// Returns `true` if a fragment names a page, in the AJAX crawling scheme. `#!` alone is a link without a target.
pub(crate) fn is_hash_bang(fragment: &str) -> bool {
    fragment.len() > 1 && fragment.starts_with('!')
}

fn host(policy: Policy, host: &str) -> &str {
    let mut host = if policy.has(Rule::DropRootDot) { without_root_dot(host) } else { host };
    if policy.has(Rule::StripWww) && host.starts_with("www.") {
        // The rest must have the same registrable domain, otherwise it would be another site.
        let site = registrable(without_root_dot(host)).map_or(usize::MAX, str::len);
        while let Some(rest) = host.strip_prefix("www.").filter(|rest| without_root_dot(rest).len() >= site) {
            host = rest;
        }
    }
    host
}

/// Function that rewrites a path; returns `None` if there is nothing to change.
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
    if let Some(changed) = query::apply_rules(policy, &query) {
        // The `?` is dropped with the last parameter.
        if changed.is_empty() {
            return None;
        }
        query = Cow::Owned(changed);
    }
    Some(query)
}
