//! Near duplicates in a generated web with known groups of similar pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Dice, Orbweaver, Output, until};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};
use serde_json::Value;

use crate::PATIENCE;

const GROUPS: u64 = 60;
const WORDS: u64 = 300;
/// Pages of a group that are near duplicates of one another.
const SIMILAR: [&str; 3] = ["a", "b", "c"];

/// Returns the words, this percentage of them replaced.
fn changed(words: &[u64], percent: u64, dice: &mut Dice) -> Vec<u64> {
    let mut replaced = |word| if dice.roll(1, 100) <= percent { dice.roll(100_000, 200_000) } else { word };
    words.iter().map(|word| replaced(*word)).collect()
}

/// Writes a web of [`GROUPS`] groups: three pages of which two words in a hundred differ, and one with a fifth of their words.
fn write_web(root: &Path) -> Result<()> {
    let mut dice = Dice(7);
    let mut links = String::new();
    for group in 0..GROUPS {
        let words: Vec<u64> = (0..WORDS).map(|_| dice.roll(0, 5_000)).collect();
        for (name, percent) in SIMILAR.map(|name| (name, 1)).into_iter().chain([("far", 80)]) {
            let text: Vec<String> = changed(&words, percent, &mut dice).iter().map(|word| format!("w{word}")).collect();
            let page = format!("<title>{group} {name}</title><article><p>{}.</p></article>", text.join(" "));
            fs::write(root.join(format!("{group}-{name}.html")), page)?;
            links.push_str(&format!("<a href={group}-{name}.html>x</a> "));
        }
    }
    fs::write(root.join("index.html"), links)?;
    Ok(())
}

/// Returns the name of the file of a document.
fn file(document: &Value) -> &str {
    document["url"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().trim_end_matches(".html")
}

#[tokio::test]
async fn near_duplicates_name_an_unmarked_page_of_their_group_also_after_a_kill() -> Result<()> {
    let (root, out) = (tempfile::tempdir()?, tempfile::tempdir()?);
    write_web(root.path())?;
    let web = ToyWeb::start_directory(root.path(), &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let mut running = Orbweaver::crawl(web.start_url(), out.path(), "--near-duplicates --rate 20")?.start()?;
    until("some pages are requested", PATIENCE, || Ok(web.log().count() > 25 || !running.runs()?)).await?;
    running.kill().await?;
    let ended = Orbweaver::crawl(web.start_url(), out.path(), "--near-duplicates")?.end(PATIENCE).await?;
    ended.expect(0, &["near duplicates"])?;

    let documents = Output::documents(out.path())?;
    let by_fingerprint: BTreeMap<&str, &Value> =
        documents.values().filter_map(|document| Some((document["fingerprint"].as_str()?, document))).collect();
    ensure!(documents.len() as u64 == GROUPS * 4 + 1, "{} documents", documents.len());
    let (mut marked, mut firsts) = (0, BTreeSet::new());
    for document in documents.values() {
        let Some(original) = document["near_duplicate_of"].as_str() else { continue };
        let original = by_fingerprint.get(original).with_context(|| format!("no document {original}"))?;
        let (page, first) = (file(document), file(original));
        let group = |name: &str| name.split_once('-').map(|(group, _)| group.to_owned());
        ensure!(group(page) == group(first) && !page.ends_with("far") && !first.ends_with("far"), "{page}: {first}");
        ensure!(original["near_duplicate_of"].is_null(), "{first} is named by {page}, and marked itself");
        marked += 1;
        firsts.insert(first);
    }
    let similar = GROUPS as usize * (SIMILAR.len() - 1);
    ensure!(marked * 100 >= similar * 95, "{marked} of {similar} near duplicates, of {} pages", firsts.len());
    Ok(())
}
