//! Parser: from bytes to groups, in one pass over the lines.

use std::collections::{BTreeMap, HashMap};

use super::{
    Agent, Limits, MAX_CRAWL_DELAY_MS, Robots,
    agent::named_agent,
    escape::push_escaped,
    line::{Directive, directive, numbered},
    pattern::Pattern,
    rules::Rule,
};

/// Longest sitemap URL, in bytes; the crawler would not request a longer one.
const MAX_SITEMAP_BYTES: usize = 8192;

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Robots {
    let mut parser = Parser { limits: *limits, ..Parser::default() };
    for (number, line) in numbered(kept(bytes, limits.max_bytes)) {
        match directive(line) {
            Some((Directive::UserAgent, value)) => parser.user_agent(value),
            Some((Directive::Allow, value)) => parser.rule(true, value, number),
            Some((Directive::Disallow, value)) => parser.rule(false, value, number),
            Some((Directive::CrawlDelay, value)) => parser.crawl_delay(value),
            Some((Directive::Sitemap, value)) => parser.sitemap(value),
            None => {}
        }
    }
    parser.finish()
}

/// Returns the part of a file that is parsed: without byte order mark (or the beginning of one), and whole lines only.
fn kept(bytes: &[u8], max_bytes: usize) -> &[u8] {
    let bytes = match bytes.get(..max_bytes) {
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
    limits: Limits,
    /// Agents named so far, and their indexes by name.
    agents: Vec<Named>,
    by_name: HashMap<Box<str>, usize>,
    /// Agents of the current group.
    open: Vec<usize>,
    /// Number of these that already have their crawl-delay from this group.
    delayed: usize,
    /// Whether a rule was read, so that the next `User-agent` begins a group.
    has_rules: bool,
    group: Option<usize>,
    groups: Vec<Vec<Rule>>,
    rules: usize,
    sitemaps: Vec<String>,
    /// Number of groups so far, from 1.
    opened: usize,
}

#[derive(Default)]
struct Named {
    agent: Agent,
    /// Number of the last group (see [`Parser::opened`]) that named the agent.
    named_in: usize,
}

impl Parser {
    fn user_agent(&mut self, value: &[u8]) {
        if self.has_rules || self.opened == 0 {
            self.open.clear();
            (self.delayed, self.has_rules, self.group) = (0, false, None);
            self.opened += 1;
        }
        let Some(name) = named_agent(value) else { return };
        let next = self.agents.len();
        let index = *self.by_name.entry(name).or_insert(next);
        if index == next {
            self.agents.push(Named::default());
        }
        if self.agents[index].named_in != self.opened {
            self.agents[index].named_in = self.opened;
            self.open.push(index);
        }
    }

    fn rule(&mut self, allow: bool, value: &[u8], line: u32) {
        if self.opened == 0 {
            return;
        }
        self.has_rules = true;
        // An empty path matches nothing; rules of a group without agents, or beyond the limit, have no effect.
        if value.is_empty() || self.open.is_empty() || self.rules >= self.limits.max_rules {
            return;
        }
        self.rules += 1;
        let group = *self.group.get_or_insert_with(|| {
            for &index in &self.open {
                self.agents[index].agent.groups.push(self.groups.len());
            }
            self.groups.push(vec![]);
            self.groups.len() - 1
        });
        let rule = Rule { pattern: Pattern::new(value), text: rule_text(allow, value), allow, line, implied: false };
        let directory = if allow { directory_of_index(value) } else { None };
        let implied = directory.map(|pattern| Rule { pattern, implied: true, ..rule.clone() });
        self.groups[group].push(rule);
        self.groups[group].extend(implied);
    }

    fn crawl_delay(&mut self, value: &[u8]) {
        let Some(delay_ms) = delay_ms(value) else { return };
        for &index in &self.open[self.delayed..] {
            let known = &mut self.agents[index].agent.crawl_delay_ms;
            *known = (*known).max(Some(delay_ms));
        }
        self.delayed = self.open.len();
    }

    fn sitemap(&mut self, value: &[u8]) {
        if value.is_empty() || value.len() > MAX_SITEMAP_BYTES || self.sitemaps.len() >= self.limits.max_sitemaps {
            return;
        }
        let url = String::from_utf8_lossy(value);
        if !self.sitemaps.iter().any(|known| *known == url) {
            self.sitemaps.push(url.into_owned());
        }
    }

    fn finish(self) -> Robots {
        let mut agents = self.agents;
        let by_name: BTreeMap<_, _> =
            self.by_name.into_iter().map(|(name, index)| (name, std::mem::take(&mut agents[index].agent))).collect();
        Robots { agents: by_name, groups: self.groups, sitemaps: self.sitemaps, refuses_all: false }
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
