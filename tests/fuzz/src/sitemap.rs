//! Sitemaps and feeds.

use std::ops::ControlFlow;

use orbweaver_sitemaps::{Limits, MAX_URL_BYTES, read_with, sniff};

/// The input is a file. It is cut at its end as well: what was read before stays the same.
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
    assert_eq!(report.is_ok(), sniff(data).is_some() || report.is_ok());
    if let Ok(report) = report {
        assert_eq!(report.entries, found.len());
        assert_eq!(report.is_cut, report.error.is_some());
    }
    let (_, of_a_part) = entries(&data[..data.len() / 2]);
    assert!(of_a_part.len() <= 1000);
}
