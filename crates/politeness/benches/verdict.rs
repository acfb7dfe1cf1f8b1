//! Cost of a verdict and of a parse.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use orbweaver_politeness::AgentRules;

/// Makes a file like that of a large site: `rules` rules, every tenth with wildcards.
fn file(rules: usize) -> String {
    let mut text = String::from("User-agent: *\nCrawl-delay: 1\n");
    for number in 0..rules {
        text.push_str(&match number % 10 {
            0 => format!("Disallow: /*/section{number}/*.php$\n"),
            5 => format!("Allow: /catalogue/{number}/public\n"),
            _ => format!("Disallow: /catalogue/{number}/private\n"),
        });
    }
    text
}

fn verdict(c: &mut Criterion) {
    for rules in [10, 100, 5000] {
        let text = file(rules);
        let parsed = AgentRules::parse(text.as_bytes(), "orbweaver");
        let path = "/catalogue/items/by-name/a-rather-long-name.html?sort=price&page=12";
        c.bench_function(&format!("verdict/{rules}_rules"), |b| b.iter(|| parsed.verdict(black_box(path)).allowed));
    }
    let wild = format!("User-agent: *\nDisallow: /{}\n", "*a".repeat(2000));
    let parsed = AgentRules::parse(wild.as_bytes(), "orbweaver");
    let path = format!("/{}{}", "a".repeat(1999), "b".repeat(6000));
    c.bench_function("verdict/2000_wildcards_on_8_KB", |b| b.iter(|| parsed.verdict(black_box(&path)).allowed));
    let text = file(1000);
    c.bench_function("parse/1000_rules", |b| b.iter(|| AgentRules::parse(black_box(text.as_bytes()), "orbweaver")));
}

criterion_group!(benches, verdict);
criterion_main!(benches);
