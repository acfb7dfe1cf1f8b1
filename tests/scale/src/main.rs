//! Writes the tables and charts of `docs/scale.md`, or counts the records of a crawl.
//!
//! ```text
//! cargo run --release -p orbweaver-scale-tests
//! cargo run --release -p orbweaver-scale-tests -- records DIR.crawl PAGES
//! ```

use std::{env, io, path::Path, process::ExitCode};

use orbweaver_scale_tests::{records, report};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report::write(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))),
        ["records", dir, pages] => print(Path::new(dir), pages),
        _ => Err(io::Error::other("allowed: no argument, or `records DIR PAGES`")),
    };
    if let Err(error) = result {
        eprintln!("orbweaver-scale-tests: {error}");
        return ExitCode::from(64);
    }
    ExitCode::SUCCESS
}

fn print(crawl: &Path, pages: &str) -> io::Result<()> {
    let pages: f64 = pages.parse().map_err(|_| io::Error::other("PAGES: allowed: a number"))?;
    println!("| topic | records per page | bytes per record | bytes per page | packed to |\n|---|---|---|---|---|");
    for (topic, count) in records::count(crawl)? {
        let (records, bytes) = (count.appended as f64 / pages, count.bytes as f64 / count.stored.max(1) as f64);
        println!("| {topic} | {records:.3} | {bytes:.0} | {:.0} | {:.2} |", records * bytes, count.packed);
    }
    Ok(())
}
