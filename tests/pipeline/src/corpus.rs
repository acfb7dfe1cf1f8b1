//! Real trees of pages, fetched once into a cache directory outside the clone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// Time allowed for fetching and walking a tree.
const PATIENCE: Duration = Duration::from_secs(300);

/// A real tree and the result of an independent walk of it.
#[derive(Debug)]
pub struct Tree {
    /// The directory to serve.
    pub root: PathBuf,
    /// The start page, relative to the directory.
    pub start: &'static str,
    /// Decoded paths of all pages that the walk reached.
    pub reachable: BTreeSet<String>,
    /// Paths of links to nonexistent files.
    pub missing: BTreeSet<String>,
}

/// Returns the English C++ reference: 4,424 pages, dense links. Returns `None`, with a message, if
/// `ORBWEAVER_WITHOUT_CORPORA` is set.
pub async fn cppreference() -> Result<Option<Tree>> {
    if std::env::var_os("ORBWEAVER_WITHOUT_CORPORA").is_some() {
        eprintln!("skipped: ORBWEAVER_WITHOUT_CORPORA is set, so no real tree is fetched");
        return Ok(None);
    }
    // Read at run time, because checkouts share their build output.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR for tests")?;
    let script = Path::new(&package).join("../corpora/fetch");
    let fetch = Command::new(&script).arg("cppreference-doc-en-html").kill_on_drop(true).output();
    let fetched = timeout(PATIENCE, fetch).await.context("tests/corpora/fetch takes too long")??;
    let said = String::from_utf8_lossy(&fetched.stderr);
    ensure!(
        fetched.status.success(),
        "tests/corpora/fetch failed (ORBWEAVER_WITHOUT_CORPORA=1 skips this test):\n{said}"
    );
    let printed = String::from_utf8(fetched.stdout)?;
    let mut lines = printed.lines();
    let (root, walk) = lines.next().zip(lines.next()).context("tests/corpora/fetch prints directory and walk")?;
    let walk: Value = serde_json::from_str(&std::fs::read_to_string(walk)?)?;
    let paths = |name: &str| -> Result<BTreeSet<String>> { Ok(serde_json::from_value(walk[name].clone())?) };
    Ok(Some(Tree {
        root: root.into(),
        start: "en/index.html",
        reachable: paths("reachable")?,
        missing: paths("missing")?,
    }))
}
