//! Comparison of stored data with the expected data.

use std::collections::BTreeMap;

use orbweaver_cluster_tests::{Content, Digest};

use crate::kept::{Contents, Keepsakes, Kept};
use crate::stored::{Rows, Stored};

/// Returns all missing, wrong or surplus documents and rows.
pub(super) fn differences(kept: &Keepsakes, stored: &Stored, documents: &BTreeMap<String, Content>) -> Vec<String> {
    let mut found = vec![];
    let none = Rows::default();
    for (url, kept) in &kept.urls {
        let rows = stored.urls.get(url).unwrap_or(&none);
        let mut differs = |what: String| found.push(format!("{url}: {what}"));
        page(kept, rows, &mut differs);
        if let Kept::Page(contents) = kept {
            document(contents, documents.get(url), &mut differs);
        }
    }
    for (authority, robots) in &kept.robots {
        match stored.robots.get(authority) {
            None => found.push(format!("{authority}: no row of its robots.txt")),
            Some(row) if row != robots => {
                found.push(format!("{authority}: the row of its robots.txt is {row:?}, not {robots:?}"));
            }
            Some(_) => {}
        }
    }
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for url in &stored.pages {
        *rows.entry(url).or_default() += 1;
    }
    for (url, count) in rows {
        if !kept.urls.contains_key(url) {
            found.push(format!("{url}: a row of a page that must not be there"));
        }
        if count > stored.crawls {
            found.push(format!("{url}: {count} rows of one page, with {} crawls", stored.crawls));
        }
    }
    found
}

/// Compares the rows of one URL.
fn page(kept: &Kept, rows: &Rows, differs: &mut impl FnMut(String)) {
    let (outcome, status) = match kept {
        Kept::Page(_) => ("fetched", 200),
        Kept::Redirect { status, .. } => ("redirected", *status),
        Kept::Gone { status } => ("gone", *status),
        Kept::Anything => return,
    };
    match &rows.page {
        None => differs("no row of the page".to_owned()),
        Some(row) if (row.outcome.as_str(), row.status) != (outcome, Some(status)) => {
            differs(format!("its row says {} with {:?}, not {outcome} with {status}", row.outcome, row.status));
        }
        Some(row) => {
            if let Kept::Page(contents) = kept
                && (row.bytes, row.content_hash.as_deref()) != (contents.bytes, Some(contents.hash.as_str()))
            {
                let (bytes, hash) = (row.bytes, row.content_hash.as_deref().unwrap_or("none"));
                differs(format!(
                    "its row says {bytes} bytes (hash {hash}), not {} ({})",
                    contents.bytes, contents.hash
                ));
            }
        }
    }
    let links = if let Kept::Page(contents) = kept { Some(contents.targets) } else { None };
    if rows.links != links {
        differs(format!("rows of its links: {}, not {}", list(rows.links), list(links)));
    }
    let target = if let Kept::Redirect { target, .. } = kept { Some(target.as_str()) } else { None };
    let stored = rows.redirect.as_ref().map(|row| row.to.as_str());
    if stored != target {
        differs(format!(
            "its redirect leads to {}, not to {}",
            stored.unwrap_or("nowhere"),
            target.unwrap_or("nowhere")
        ));
    }
}

fn list(links: Option<Digest>) -> String {
    links.map_or_else(|| "none".to_owned(), |links| links.to_string())
}

/// Compares the document of a page; a missing document is reported as a lost page.
fn document(contents: &Contents, document: Option<&Content>, differs: &mut impl FnMut(String)) {
    let Some(document) = document else { return };
    if (document.bytes, &document.hash) != (contents.bytes, &contents.hash) {
        let (bytes, hash) = (document.bytes, &document.hash);
        differs(format!("its document is of {bytes} bytes (hash {hash}), not {} ({})", contents.bytes, contents.hash));
    }
    if document.links != contents.links {
        differs(format!("the links of its document: {}, not {}", document.links, contents.links));
    }
    if document.words != contents.words {
        differs(format!("the words of its document: {}, not {}", document.words, contents.words));
    }
    if document.is_cut {
        differs("its document was cut".to_owned());
    }
}
