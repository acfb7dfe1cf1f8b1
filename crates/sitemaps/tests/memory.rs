//! Peak memory of a gzip bomb; the only test of its process, whose memory it measures.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{io::Write as _, ops::ControlFlow};

use flate2::{Compression, write::GzEncoder};
use orbweaver_sitemaps::{Limits, read_with};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Returns the peak memory of this process, in KiB.
fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reads data that begins with `start` and continues with a bomb. Returns the number of entries.
fn entries(start: &str, bomb: &[u8], limits: &Limits) -> usize {
    let body = [&gzip(start.as_bytes()), bomb].concat();
    read_with(&body, limits, |_| ControlFlow::Continue(())).map_or(0, |report| report.entries)
}

#[test]
fn a_gibibyte_in_a_mebibyte_ends_at_the_limit_with_little_memory() {
    let [zeros, spaces, long] = [0, b' ', b'a'].map(|byte| gzip(&[byte; 1 << 20]).repeat(1024));
    let deep = gzip("<a>".repeat(1 << 18).as_bytes()).repeat(1024);
    let before = peak_kib();
    for start in ["", "<urlset>", "<urlset><url><loc>", "<urlset><!--", "<urlset><a b='", "http://"] {
        for bomb in [&zeros, &spaces, &long] {
            assert_eq!(entries(start, bomb, &Limits::default()), 0, "{start}");
        }
    }
    assert_eq!(entries("<urlset>", &deep, &Limits::default()), 0);
    let unlimited = Limits { expanded_bytes: usize::MAX, ..Limits::default() };
    assert_eq!(entries("<urlset><url><loc>", &zeros, &unlimited), 0);
    assert_eq!(entries("http://", &long, &unlimited), 0);
    let used = peak_kib() - before;
    println!("{used} KiB for 1 GiB");
    assert!(used < 48 << 10, "{used} KiB");
}
