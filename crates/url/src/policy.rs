//! The policy of a canonical form: which rules apply. Pure data, pinned when a crawl is created.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::parameters::LISTS_VERSION;

/// One rule of the canonical form that a policy may apply or leave. The crate's README has a table of them with their
/// vectors.
///
/// What every policy has is the WHATWG serialisation: scheme and host in lower case, an international name in Punycode
/// (UTS 46), a numeric host as an IP address (RFC 3986 section 7.4), an IPv6 address compressed (RFC 5952), a default port
/// left out (RFC 3986 section 6.2.3), dot segments resolved, written `%2e` or not (section 6.2.2.3), an empty path as `/`
/// (section 6.2.3), and what cannot stand in a URL percent-encoded as UTF-8. So is a non-breaking space: it is `%C2%A0`,
/// and no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rule {
    /// User information is dropped: it names who asks, not what is asked for (RFC 3986 section 7.5, RFC 9110 section 4.2.4).
    DropUserInfo,
    /// One trailing dot of the host is dropped: `example.com.` is the same name, fully qualified (RFC 1034 section 3.1).
    DropRootDot,
    /// Escapes are brought into one form. In path and query their hexadecimal digits are upper-cased (RFC 3986 section
    /// 6.2.2.1), and what is in no RFC 3986 `pchar` but may stand in a WHATWG URL is escaped, since strict clients must
    /// send it so: ``[ ] | ^ ` ``, in queries `{ } \` too. In the path unreserved characters are decoded (section
    /// 6.2.2.2; `%7Euser` is `~user`), and a `%` that begins no escape becomes `%25`, which is all that it can mean. In the
    /// query neither is done: a `%` may be a legacy `%u20AC`, and a form's decoder may be of any make.
    NormalizeEscapes,
    /// An empty query is dropped with its `?`: three of five normalisers do, and frameworks do not tell them apart.
    DropEmptyQuery,
    /// `https` counts as `http`, on their default ports: most sites serve the same under both or redirect one to the other
    /// (SURT of the Internet Archive, urlcanon `aggressive`). On another port the scheme stays, since the port speaks one.
    MergeSchemes,
    /// `www.` is dropped from the host, as often as a registrable domain is left (urlcanon `aggressive`, purell). `www2.`
    /// stays: such hosts are often other servers.
    StripWww,
    /// Slashes that follow a slash in the path are dropped: file systems take no notice of them (Nutch, crawler-commons).
    MergeSlashes,
    /// The name of a directory's index is dropped: `index` or `default` with a usual ending (Nutch `regex-normalize`).
    DropIndex,
    /// The query is read as a form's (WHATWG URL section 5.1): `%20` and `+` are both a space, written `+`, unreserved
    /// characters are decoded (RFC 3986 section 6.2.2.2), and a `%` that begins no escape becomes `%25`. `%2B` stays, and
    /// so does `%C2%A0`, the non-breaking space. It covers for the query what `normalize-escapes` does.
    FormQuery,
    /// Parameters of the query are sorted by key; those of one key keep their order, as it is the order of a list. Empty
    /// values and absent ones are kept and told apart (`a=` and `a`).
    SortQuery,
    /// Parameters without key and value are dropped: `?&a=1&&b=2&` is `?a=1&b=2` (Nutch, w3lib, urlcanon).
    DropEmptyParameters,
    /// Parameters that only follow visitors are dropped, by a list (`utm_source`, `fbclid`).
    DropTracking,
    /// Session identifiers are dropped, by a list: parameters (`PHPSESSID`), path parameters (`;jsessionid=`), and the
    /// segments of ASP.NET without cookies (`/(S(…))/`). Names that mean something else elsewhere (`sid`) are dropped
    /// only with a value that looks drawn at random.
    DropSessions,
    /// The port is always written out. (No preset has it: such a form parses to one without the default port.)
    WritePorts,
    /// A fragment that begins with `!` and goes on is kept: sites of the years from 2009 to 2015 name pages so (the AJAX
    /// crawling scheme of Google). All others are removed by every policy: they are never sent (RFC 9110 section 4.2.5).
    KeepHashBang,
}

/// Every rule with its name and the presets that have it, in the order in which a policy's text names them.
const RULES: [(Rule, &str, &[Preset]); 15] = {
    use Preset::{Aggressive, Standard};
    const BOTH: &[Preset] = &[Standard, Aggressive];
    const AGGRESSIVE: &[Preset] = &[Aggressive];
    [
        (Rule::DropUserInfo, "drop-user-info", BOTH),
        (Rule::DropRootDot, "drop-root-dot", BOTH),
        (Rule::NormalizeEscapes, "normalize-escapes", BOTH),
        (Rule::DropEmptyQuery, "drop-empty-query", BOTH),
        (Rule::MergeSchemes, "merge-schemes", AGGRESSIVE),
        (Rule::StripWww, "strip-www", AGGRESSIVE),
        (Rule::MergeSlashes, "merge-slashes", AGGRESSIVE),
        (Rule::DropIndex, "drop-index", AGGRESSIVE),
        (Rule::FormQuery, "form-query", AGGRESSIVE),
        (Rule::SortQuery, "sort-query", AGGRESSIVE),
        (Rule::DropEmptyParameters, "drop-empty-parameters", AGGRESSIVE),
        (Rule::DropTracking, "drop-tracking", AGGRESSIVE),
        (Rule::DropSessions, "drop-sessions", AGGRESSIVE),
        (Rule::WritePorts, "write-ports", &[]),
        (Rule::KeepHashBang, "keep-hashbang", &[]),
    ]
};

impl Rule {
    /// Every rule.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|(rule, ..)| *rule)
    }

    /// Its name, as a policy's text has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        RULES[self as usize].1
    }

    /// Whether it goes by lists, whose version then stands in the policy's text.
    fn has_lists(self) -> bool {
        matches!(self, Self::DropTracking | Self::DropSessions)
    }
}

/// A named set of rules, from which a policy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Preset {
    Raw,
    Standard,
    Aggressive,
}

impl Preset {
    const ALL: [Self; 3] = [Self::Standard, Self::Aggressive, Self::Raw];

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Standard => "standard",
            Self::Aggressive => "aggressive",
        }
    }

    /// The version of its rules. It rises when one of them changes, and for `aggressive` when a list does.
    fn version(self) -> u32 {
        1
    }

    const fn policy(self) -> Policy {
        let mut rules = 0;
        let mut i = 0;
        while i < RULES.len() {
            let (rule, _, presets) = RULES[i];
            let mut j = 0;
            while j < presets.len() {
                if presets[j] as u8 == self as u8 {
                    rules |= 1 << rule as u8;
                }
                j += 1;
            }
            i += 1;
        }
        Policy { preset: self, rules }
    }
}

/// Which rules the canonical form of a crawl follows.
///
/// As text, and in serde: the name and version of a preset, then the rules in which it differs, as `standard/1`,
/// `standard/1,sort-query,drop-tracking/1`, `aggressive/1,no-strip-www`. The text says all: policies with equal texts give
/// equal canonical forms, in every build that reads the text at all. Versions may be left out when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub struct Policy {
    preset: Preset,
    /// A bit for each rule.
    rules: u16,
}

impl Policy {
    /// What RFC 3986 calls equivalent and what no server can tell apart, and nothing that a server may well tell apart: for
    /// a page that is merged wrongly is a page that is never fetched.
    pub const STANDARD: Self = Preset::Standard.policy();
    /// Also what servers seldom tell apart. It saves requests on sites with session identifiers, tracking links or several
    /// names, and may lose pages on others.
    pub const AGGRESSIVE: Self = Preset::Aggressive.policy();
    /// Only what parsing does: each way to write a URL is a page of its own.
    pub const RAW: Self = Preset::Raw.policy();

    /// The presets.
    pub const PRESETS: [Self; 3] = [Self::STANDARD, Self::AGGRESSIVE, Self::RAW];

    /// Whether the rule applies.
    #[must_use]
    pub const fn has(self, rule: Rule) -> bool {
        self.rules & 1 << rule as u8 != 0
    }

    /// Whether it is [`Policy::STANDARD`], which messages leave out.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub fn is_standard(&self) -> bool {
        *self == Self::STANDARD
    }

    /// The same policy with a rule added or left out.
    #[must_use]
    pub const fn with(self, rule: Rule, applies: bool) -> Self {
        let bit = 1 << rule as u8;
        Self { preset: self.preset, rules: if applies { self.rules | bit } else { self.rules & !bit } }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::STANDARD
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preset = self.preset.policy();
        write!(f, "{}/{}", self.preset.name(), self.preset.version())?;
        for rule in Rule::all().filter(|rule| self.has(*rule) != preset.has(*rule)) {
            let no = if self.has(rule) { "" } else { "no-" };
            write!(f, ",{no}{}", rule.name())?;
            if rule.has_lists() && self.has(rule) {
                write!(f, "/{LISTS_VERSION}")?;
            }
        }
        Ok(())
    }
}

/// The text names no policy that this build has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It does not begin with a preset.
    #[error(
        "`{0}` is no canonical policy; one is `standard`, `aggressive` or `raw`, and rules after commas, as `standard,sort-query`"
    )]
    Preset(String),
    /// A rule is unknown.
    #[error("`{0}` is no rule of a canonical policy; one is {names}, or `no-` and one of these", names = rule_names())]
    Rule(String),
    /// The rules of that name were others.
    #[error("`{0}` is another version than this build has, `{1}`")]
    Version(String, String),
}

fn rule_names() -> String {
    let names: Vec<_> = RULES.iter().map(|(_, name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let (name, version) = versioned(first);
        let preset = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        let preset = preset.ok_or_else(|| PolicyError::Preset(shown(first)))?;
        if version.is_some_and(|version| version != preset.version().to_string()) {
            return Err(PolicyError::Version(shown(first), format!("{name}/{}", preset.version())));
        }
        let mut policy = preset.policy();
        for word in words {
            let (name, version) = versioned(word);
            let (name, applies) = name.strip_prefix("no-").map_or((name, true), |name| (name, false));
            let rule = Rule::all().find(|rule| rule.name() == name && (version.is_none() || rule.has_lists()));
            let rule = rule.ok_or_else(|| PolicyError::Rule(shown(word)))?;
            if version.is_some_and(|version| version != LISTS_VERSION.to_string()) {
                return Err(PolicyError::Version(shown(word), format!("{name}/{LISTS_VERSION}")));
            }
            policy = policy.with(rule, applies);
        }
        Ok(policy)
    }
}

/// A word and what stands behind its slash.
fn versioned(word: &str) -> (&str, Option<&str>) {
    word.split_once('/').map_or((word, None), |(name, version)| (name, Some(version)))
}

/// The beginning of a text, for an error message.
fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(60)].to_owned()
}

impl TryFrom<Cow<'_, str>> for Policy {
    type Error = PolicyError;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_policy_that_crawls_have_pinned_keeps_its_name() {
        // Stored data depends on these.
        assert_eq!(Policy::STANDARD.to_string(), "standard/1");
        assert_eq!(Policy::AGGRESSIVE.to_string(), "aggressive/1");
        assert_eq!(Policy::RAW.to_string(), "raw/1");
        let policy = Policy::STANDARD.with(Rule::DropTracking, true).with(Rule::SortQuery, true);
        assert_eq!(policy.to_string(), "standard/1,sort-query,drop-tracking/1");
        assert_eq!(Policy::AGGRESSIVE.with(Rule::StripWww, false).to_string(), "aggressive/1,no-strip-www");
    }

    #[test]
    fn what_a_person_writes_is_read_and_what_is_wrong_is_named_with_what_is_allowed() {
        assert_eq!("standard".parse(), Ok(Policy::STANDARD));
        assert_eq!("aggressive, no-drop-sessions".parse(), Ok(Policy::AGGRESSIVE.with(Rule::DropSessions, false)));
        for (text, error) in [
            ("", "`` is no canonical policy; one is `standard`, `aggressive` or `raw`"),
            ("Standard", "`Standard` is no canonical policy"),
            ("standard/2", "`standard/2` is another version than this build has, `standard/1`"),
            ("standard,", "`` is no rule of a canonical policy; one is `drop-user-info`, "),
            ("raw,sort", "`sort` is no rule"),
            ("raw,sort-query/1", "`sort-query/1` is no rule"),
            ("raw,drop-tracking/7", "`drop-tracking/7` is another version than this build has, `drop-tracking/1`"),
        ] {
            let told = text.parse::<Policy>().unwrap_err().to_string();
            assert!(told.starts_with(error), "{told}");
        }
    }

    #[test]
    fn the_table_of_rules_is_in_their_order() {
        for (place, rule) in Rule::all().enumerate() {
            assert_eq!(place, rule as usize, "{}", rule.name());
        }
    }

    proptest! {
        #[test]
        fn a_policy_reads_back_from_its_text_and_from_json(preset in 0..3usize, rules in 0..1u16 << RULES.len()) {
            let policy = Policy { preset: Preset::ALL[preset], rules };
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
            let json = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Policy>(&json).unwrap(), policy);
        }
    }
}
