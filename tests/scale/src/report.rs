//! The tables and charts of `docs/scale.md`.

use std::{fmt::Write as _, fs, io, path::Path};

use orbweaver_url::SLOTS;

use crate::{
    assign::{Assignor, least, moved, range},
    chart::{self, grouped},
    cluster,
    spread::{Spread, by_owner, by_partition, relative},
    web::{Random, Web},
};

/// URLs of the web.
const URLS: u64 = 1_000_000_000;
const SEED: u64 = 1;
const INSTANCES: u32 = 1_000;
/// Instances that join at once.
const JOINING: u32 = 100;
/// Partition counts that are compared; a pipeline takes a power of two.
const PARTITIONS: [u32; 4] = [1_024, 2_048, 4_096, 16_384];

/// Writes the charts to `docs/scale/`, and the tables to their places in `docs/scale.md`; prints the tables.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(docs: &Path) -> io::Result<()> {
    let web = Web::new(URLS, SEED);
    let members: Vec<u32> = (0..INSTANCES).collect();
    let page = docs.join("scale.md");
    let mut text = fs::read_to_string(&page)?;
    let tables = [
        ("web", web_table(&web)),
        ("spread", spread_table(&web, &members)),
        ("moves", moves_table()),
        ("rolling", rolling_table()),
        ("messages", messages_table()),
        ("needs", needs_table()),
    ];
    for (name, table) in tables {
        println!("{table}");
        text = replaced(&text, name, &table)
            .ok_or_else(|| io::Error::other(format!("{}: no place for the table `{name}`", page.display())))?;
    }
    fs::write(page, text)?;
    for (name, svg) in charts(&web, &members) {
        fs::write(docs.join("scale").join(name), svg)?;
    }
    Ok(())
}

/// Replaces the text between `<!-- name -->` and `<!-- /name -->`.
#[must_use]
pub fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{table}{end}{after}"))
}

fn web_table(web: &Web) -> String {
    let mut table = "| cap per site | URLs | sites above the cap |\n|---|---|---|\n".to_owned();
    for (cap, name) in ["none", "86,400 (a day at one per second)", "10,000"].into_iter().enumerate() {
        let _ = writeln!(table, "| {name} | {} | {} |", grouped(web.total(cap)), grouped(web.above[cap]));
    }
    let largest = web.largest.first().map_or(0, |&(urls, _)| urls);
    let _ = writeln!(table, "\n{} sites; the largest has {} URLs.", grouped(web.total(3)), grouped(largest));
    table
}

fn spread_table(web: &Web, members: &[u32]) -> String {
    let mut table = "| maximum / p99 / minimum, relative to the mean | all URLs | 86,400 per site | 10,000 per site \
                     | sites (bound of requests per second) |\n|---|---|---|---|---|\n"
        .to_owned();
    let mut row = |name: String, loads: &dyn Fn(&[u64]) -> Vec<u64>| {
        let cells = web.loads.iter().map(|slots| {
            let Spread { max, p99, min } = Spread::of(&loads(slots));
            format!("{max:.2} / {p99:.2} / {min:.2}")
        });
        let _ = writeln!(table, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    row(format!("{} slots", grouped(SLOTS.into())), &<[u64]>::to_vec);
    for partitions in PARTITIONS.into_iter().take(3) {
        row(format!("{} partitions", grouped(partitions.into())), &|slots| by_partition(slots, partitions));
    }
    for partitions in [1_000, 10_000] {
        row(format!("({} partitions, refused)", grouped(partitions.into())), &|slots| by_partition(slots, partitions));
    }
    for partitions in PARTITIONS {
        let owners = range(members, partitions);
        row(format!("1,000 instances, {} partitions", grouped(partitions.into())), &|slots| {
            by_owner(&by_partition(slots, partitions), &owners, INSTANCES)
        });
    }
    table
}

/// Returns members 0 to `count` in the order in which brokers sort instance IDs: `frontier-10` before `frontier-2`.
#[must_use]
pub fn by_instance_id(count: u32) -> Vec<u32> {
    let mut members: Vec<u32> = (0..count).collect();
    members.sort_by_key(u32::to_string);
    members
}

/// Returns the shares of partitions that move from [`INSTANCES`] members to `after`: at least, sticky, range, modulo.
fn shares(partitions: u32, after: &[u32]) -> [f64; 4] {
    let before = by_instance_id(INSTANCES);
    let owners = range(&before, partitions);
    let share = |moves: usize| moves as f64 / f64::from(partitions);
    let moves = |assignor: Assignor| {
        let owners = assignor.assign(&owners, &before);
        share(moved(&owners, &assignor.assign(&owners, after)))
    };
    let [sticky, range, modulo] = [Assignor::Sticky, Assignor::Range, Assignor::Modulo].map(moves);
    [share(least(&owners, after)), sticky, range, modulo]
}

/// Returns [`shares`] if one member stops, as the mean over members, and if [`JOINING`] join.
fn moves(partitions: u32) -> [[f64; 4]; 2] {
    let stopped = (0..INSTANCES).step_by(20).map(|stopped| {
        let rest: Vec<u32> = by_instance_id(INSTANCES).into_iter().filter(|&member| member != stopped).collect();
        shares(partitions, &rest)
    });
    let (count, sums) = stopped
        .fold((0.0, [0.0; 4]), |(count, sums), shares| (count + 1.0, [0, 1, 2, 3].map(|at| sums[at] + shares[at])));
    [sums.map(|sum| sum / count), shares(partitions, &by_instance_id(INSTANCES + JOINING))]
}

fn moves_table() -> String {
    let mut table =
        "| 1,000 instances | partitions | least possible | sticky | `range` | modulo |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (change, name) in ["one stops (mean)", "100 join"].into_iter().enumerate() {
        for partitions in PARTITIONS {
            let cells = moves(partitions)[change].map(|share| format!("{:.2} %", share * 100.0));
            let _ = writeln!(table, "| {name} | {} | {} |", grouped(partitions.into()), cells.join(" | "));
        }
    }
    table
}

fn rolling_table() -> String {
    let mut table = "| partitions | sticky | `range`, random IDs |\n|---|---|---|\n".to_owned();
    for partitions in PARTITIONS {
        let times = [Assignor::Sticky, Assignor::Range].map(|assignor| {
            let mut random = Random(SEED);
            let place = |members: usize| random.draw() as usize % (members + 1);
            assignor.rolling(partitions, INSTANCES, place) as f64 / f64::from(partitions)
        });
        let _ = writeln!(table, "| {} | {:.1} | {:.0} |", grouped(partitions.into()), times[0], times[1]);
    }
    table
}

fn messages_table() -> String {
    let mut table = "| topic | real tree: records, bytes, packed per page | wide web: records, bytes, packed per page \
                     | wide web at 10^9 per day: records/s | MB/s | MB/s, three copies |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let cell = |records: f64, bytes: f64, packed: f64| format!("{records:.2}, {bytes:.0}, {packed:.0}");
    let mut row = |name: &str, [tree, wide]: [[f64; 3]; 2]| {
        let [records, bytes] = [wide[0], wide[1] / 1e6].map(|per_page| per_page * cluster::PAGES_PER_SECOND);
        let (tree, wide) = (cell(tree[0], tree[1], tree[2]), cell(wide[0], wide[1], wide[2]));
        let records = grouped(records as u64);
        let _ = writeln!(table, "| {name} | {tree} | {wide} | {records} | {bytes:.1} | {:.1} |", bytes * 3.0);
    };
    for (tree, wide) in cluster::TREE.iter().zip(&cluster::WIDE) {
        row(&format!("`{}`", tree.name), [tree, wide].map(|it| [it.records, it.bytes, it.packed]));
    }
    let sums = [&cluster::TREE, &cluster::WIDE].map(|topics| {
        let of: [fn(&cluster::Topic) -> f64; 3] = [|it| it.records, |it| it.bytes, |it| it.packed];
        of.map(|of| cluster::sum(topics, of))
    });
    row("all", sums);
    table
}

fn needs_table() -> String {
    let mut table =
        "| resource | at 10^9 pages per day | one unit | units at full load | source |\n|---|---|---|---|---|\n"
            .to_owned();
    for need in cluster::needs(&[128, 1_024, 4_096, 16_384]) {
        let cluster::Need { resource, demand, limit, takes, source } = need;
        let _ = writeln!(table, "| {resource} | {demand} | {limit} | {takes:.1} | {source} |");
    }
    table
}

fn charts(web: &Web, members: &[u32]) -> [(&'static str, String); 4] {
    let sorted = |cap: usize, partitions: u32| {
        let owners = range(members, partitions);
        relative(&by_owner(&by_partition(&web.loads[cap], partitions), &owners, INSTANCES))
    };
    let series = ["1,024 partitions, capped", "4,096, capped", "16,384, capped", "16,384, all URLs"];
    let values = [sorted(1, 1_024), sorted(1, 4_096), sorted(1, 16_384), sorted(0, 16_384)];
    let title = "URLs per instance relative to the mean (cap: 86,400 URLs per site)";
    let spread = chart::lines(title, "1,000 instances, least loaded first", &series, &values);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rows = [1_024, 4_096, 16_384].into_iter().flat_map(|partitions| {
        let [stops, join] = moves(partitions).map(|shares| shares[1..].to_vec());
        let name = |change| format!("{change}, {} partitions", grouped(partitions.into()));
        [(name("one stops"), stops), (name("100 join"), join)]
    });
    let assignors = ["sticky (least possible)", "range (the services)", "modulo"];
    let rows: Vec<_> = rows.collect();
    let moves = chart::bars("Partitions that move, of 1,000 instances", &assignors, &rows, percent);
    let topics = cluster::TREE.iter().zip(&cluster::WIDE);
    let rows: Vec<_> = topics.map(|(tree, wide)| (tree.name.to_owned(), vec![tree.bytes, wide.bytes])).collect();
    let bytes = |bytes: f64| grouped(bytes as u64);
    let messages =
        chart::bars("Bytes per page by topic, uncompressed except bodies", &["real tree", "wide web"], &rows, bytes);
    let needs = cluster::needs(&[128, 1_024, 4_096, 16_384]);
    let rows: Vec<_> = needs.iter().map(|need| (need.resource.clone(), vec![need.takes])).collect();
    let units = |units: f64| format!("{units:.1}");
    let needs =
        chart::bars("Machines at 10^9 pages per day, at full load", &["brokers, nodes or instances"], &rows, units);
    [("spread.svg", spread), ("moves.svg", moves), ("messages.svg", messages), ("needs.svg", needs)]
}
