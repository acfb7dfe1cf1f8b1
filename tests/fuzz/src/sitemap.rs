//! Sitemaps and feeds.

use std::ops::ControlFlow;

use orbweaver_sitemaps::{Limits, MAX_URL_BYTES, read_with};

/// The input is a file, which is also read without its second half.
pub(crate) fn check(data: &[u8]) {
    let limits = Limits { expanded_bytes: 1 << 20, entries: 1000 };
    let entries = |data: &[u8]| {
        let mut entries = Vec::new();
        let report = read_with(data, &limits, |entry| {
            assert!(!entry.url.is_empty() && entry.url.len() <= MAX_URL_BYTES);
            entries.push(entry.url.into_owned());
            ControlFlow::Continue(())
        });
        (report, entries)
    };
    let (report, found) = entries(data);
    match report {
        Ok(report) => {
            assert_eq!(report.entries, found.len());
            assert_eq!(report.is_cut, report.error.is_some());
        }
        Err(_) => assert!(found.is_empty(), "an unknown format has no entries"),
    }
    // Text that was decoded just before damage of gzip data is lost with it.
    if data.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    let (_, of_the_half) = entries(&data[..data.len() / 2]);
    // The last line of a text sitemap may be cut.
    let complete = of_the_half.len().saturating_sub(1);
    assert!(found.len() >= complete && found[..complete] == of_the_half[..complete], "the first entries are the same");
}
