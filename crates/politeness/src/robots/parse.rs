//! Parser: from bytes to the rules of an agent, in one pass over the lines.

use super::{
    MAX_CRAWL_DELAY_MS, MAX_SITEMAP_BYTES, MAX_SITEMAPS,
    agent::{agent_token, named_agent},
    escape::push_escaped,
    line::{Directive, directive, numbered},
    pattern::Pattern,
    rules::{AgentRules, Rule},
    usage::{UsageKind, UsageRule},
};

/// Maximum number of bytes that are parsed: the least that RFC 9309 section 2.5 allows.
pub(super) const MAX_BYTES: usize = 500 << 10;
/// Maximum number of rules in all groups; further ones are ignored.
pub(super) const MAX_RULES: usize = 50_000;

impl AgentRules {
    /// Parses a robots.txt for `agent`, a product token or a whole user agent. Any bytes are a robots.txt; lines that
    /// are no rule are ignored.
    #[must_use]
    pub fn parse(robots_txt: &[u8], agent: &str) -> Self {
        let mut parser = Parser { agent: agent_token(agent), ..Parser::default() };
        for (number, line) in numbered(kept(robots_txt)) {
            match directive(line) {
                Some((Directive::UserAgent, value)) => parser.user_agent(value),
                Some((Directive::Allow, value)) => parser.rule(true, value, number),
                Some((Directive::Disallow, value)) => parser.rule(false, value, number),
                Some((Directive::CrawlDelay, value)) => parser.crawl_delay(value),
                Some((Directive::Sitemap, value)) => parser.sitemap(value),
                Some((Directive::ContentSignal, value)) => parser.usage(UsageKind::ContentSignal, value),
                Some((Directive::ContentUsage, value)) => parser.usage(UsageKind::ContentUsage, value),
                None => {}
            }
        }
        // The groups that name the agent, or else those of `*` (RFC 9309 section 2.2.1).
        let named = if parser.own.is_named { parser.own } else { parser.others };
        let Named { mut rules, mut usage, crawl_delay_ms, .. } = named;
        rules.sort_by_key(Rule::precedence);
        usage.sort_by_key(UsageRule::precedence);
        Self { rules: rules.into(), usage: usage.into(), crawl_delay_ms, sitemaps: parser.sitemaps.into() }
    }
}

/// Returns the part of a file that is parsed: without byte order mark (or the beginning of one), and whole lines only.
fn kept(bytes: &[u8]) -> &[u8] {
    let bytes = match bytes.get(..MAX_BYTES) {
        // A rule that is cut would be another rule.
        Some(head) if head.len() < bytes.len() => {
            &head[..memchr::memrchr2(b'\r', b'\n', head).map_or(0, |end| end + 1)]
        }
        _ => bytes,
    };
    let mark = bytes.iter().zip(b"\xef\xbb\xbf").take_while(|(byte, mark)| byte == mark).count();
    &bytes[mark..]
}

#[derive(Default)]
struct Parser {
    /// Product token whose rules are wanted.
    agent: String,
    /// The groups that name the agent.
    own: Named,
    /// The groups that name `*`.
    others: Named,
    /// Whether a group has begun; what precedes the first is ignored.
    has_group: bool,
    /// Whether the current group names any agent; without one it has no effect.
    names_any: bool,
    /// Whether a rule was read, so that the next `User-agent` begins a group.
    has_rules: bool,
    /// Number of rules in all groups.
    rules: usize,
    sitemaps: Vec<Box<str>>,
    /// Total length of the sitemaps' URLs, in bytes.
    sitemap_bytes: usize,
}

/// Rules and crawl-delay of the groups that name an agent.
#[derive(Default)]
struct Named {
    is_named: bool,
    /// Whether the current group names the agent.
    in_group: bool,
    /// Whether the current group, which names the agent, has no crawl-delay since.
    awaits_delay: bool,
    rules: Vec<Rule>,
    usage: Vec<UsageRule>,
    crawl_delay_ms: Option<u64>,
}

impl Parser {
    fn user_agent(&mut self, value: &[u8]) {
        if self.has_rules || !self.has_group {
            (self.has_group, self.names_any, self.has_rules) = (true, false, false);
            for named in [&mut self.own, &mut self.others] {
                (named.in_group, named.awaits_delay) = (false, false);
            }
        }
        let Some(name) = named_agent(value) else { return };
        self.names_any = true;
        let named = match &*name {
            "*" => &mut self.others,
            name if *name == self.agent => &mut self.own,
            _ => return,
        };
        if !named.in_group {
            (named.is_named, named.in_group, named.awaits_delay) = (true, true, true);
        }
    }

    fn rule(&mut self, allow: bool, value: &[u8], line: u32) {
        self.has_rules = self.has_group;
        // An empty path matches nothing.
        if value.is_empty() || !self.names_any || self.rules >= MAX_RULES {
            return;
        }
        self.rules += 1;
        // The rules of `*` are not used if a group names the agent.
        let Some(named) = [&mut self.own, &mut self.others].into_iter().find(|named| named.in_group) else { return };
        let rule = Rule { pattern: Pattern::new(value), text: rule_text(allow, value), allow, line };
        let directory = if allow { directory_of_index(value) } else { None };
        let implied = directory.map(|pattern| Rule { pattern, ..rule.clone() });
        named.rules.push(rule);
        named.rules.extend(implied);
    }

    /// Adds a statement for the agents named so far. It ends no list of names: the rules after it are for all of them,
    /// as without the line.
    fn usage(&mut self, kind: UsageKind, value: &[u8]) {
        if !self.names_any || self.rules >= MAX_RULES {
            return;
        }
        self.rules += 1;
        if let Some(named) = [&mut self.own, &mut self.others].into_iter().find(|named| named.in_group) {
            named.usage.push(UsageRule::new(kind, value));
        }
    }

    fn sitemap(&mut self, value: &[u8]) {
        let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
        let Ok(url) = std::str::from_utf8(&value[..end]) else { return };
        self.sitemap_bytes += url.len();
        let has_room = self.sitemaps.len() < MAX_SITEMAPS && self.sitemap_bytes <= MAX_SITEMAP_BYTES;
        if has_room && !url.is_empty() {
            self.sitemaps.push(url.into());
        }
    }

    /// Applies a crawl-delay to the agents named since the previous one of the group.
    fn crawl_delay(&mut self, value: &[u8]) {
        let Some(delay_ms) = delay_ms(value) else { return };
        for named in [&mut self.own, &mut self.others].into_iter().filter(|named| named.awaits_delay) {
            named.crawl_delay_ms = named.crawl_delay_ms.max(Some(delay_ms));
            named.awaits_delay = false;
        }
    }
}

/// Returns the pattern of `/a/` for an `Allow: /a/index.html`: not in the RFC, but common to all robots.txt parsers.
fn directory_of_index(value: &[u8]) -> Option<Pattern> {
    let slash = memchr::memrchr(b'/', value)?;
    value[slash..].starts_with(b"/index.htm").then(|| Pattern::new(&[&value[..=slash], b"$"].concat()))
}

fn rule_text(allow: bool, value: &[u8]) -> Box<str> {
    let mut text = Vec::with_capacity(value.len() + 12);
    text.extend_from_slice(if allow { b"Allow: " } else { b"Disallow: " });
    for chunk in value.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        chunk.invalid().iter().for_each(|&byte| push_escaped(byte, &mut text));
    }
    String::from_utf8(text).unwrap_or_default().into()
}

/// Parses seconds with an optional fraction, as milliseconds; ignores text after the number (`10<BR>`, `10 s`).
fn delay_ms(value: &[u8]) -> Option<u64> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(value.len());
    let seconds: f64 = std::str::from_utf8(&value[..end]).ok()?.parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "digits are not negative, and `as` saturates"
    )]
    let delay_ms = (seconds * 1000.0).round() as u64;
    Some(delay_ms.min(MAX_CRAWL_DELAY_MS))
}
