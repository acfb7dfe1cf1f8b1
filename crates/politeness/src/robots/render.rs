//! Rendering of a parsed robots.txt in one fixed form.

use std::fmt::Write;

use super::Robots;

pub(super) fn render(robots: &Robots) -> String {
    let mut out = String::new();
    if robots.refuses_all {
        out.push_str("User-agent: *\nDisallow: /\n");
        return out;
    }
    let mut names: Vec<Vec<&str>> = vec![vec![]; robots.groups.len()];
    for (name, agent) in &robots.agents {
        for &group in &agent.groups {
            names[group].push(name);
        }
    }
    for (names, rules) in names.iter().zip(&robots.groups) {
        for name in names {
            push_line(&mut out, "User-agent", name);
        }
        for rule in rules.iter().filter(|rule| !rule.implied) {
            out.push_str(&rule.text);
            out.push('\n');
        }
        out.push('\n');
    }
    // A delay has a group of its own, since in a shared group it would apply to all its agents; and an agent without
    // rules is named, so that it does not fall under `*`.
    for (name, agent) in &robots.agents {
        if agent.crawl_delay_ms.is_some() || agent.groups.is_empty() {
            push_line(&mut out, "User-agent", name);
            if let Some(delay_ms) = agent.crawl_delay_ms {
                push_line(&mut out, "Crawl-delay", &format!("{}.{:03}", delay_ms / 1000, delay_ms % 1000));
            }
            out.push_str("Disallow:\n\n");
        }
    }
    for sitemap in &robots.sitemaps {
        push_line(&mut out, "Sitemap", sitemap);
    }
    out
}

fn push_line(out: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{name}: {value}");
}
