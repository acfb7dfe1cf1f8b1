//! Pages that overload a careless crawler: large bodies, many links, deep nesting.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests};
use orbweaver_toyweb::{Logging, Serving, ToyWeb, heavy_links, heavy_paths};
use serde_json::{Value, json};

use crate::PATIENCE;

/// Crawls the heavy web, where the pages `cut` are cut before their links. Returns its documents by path.
async fn crawl(options: &str, cut: &[&str]) -> Result<BTreeMap<String, Value>> {
    let web = ToyWeb::start_heavy(&Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let out = tempfile::tempdir()?;
    let crawl = Orbweaver::crawl(web.start_url(), out.path(), &format!("--scope host {options}"))?;
    crawl.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    ensure!(output.summary["dead_letters"] == 0, "{}", output.summary);

    let base = web.start_url().trim_end_matches('/');
    let paths: BTreeSet<String> = heavy_paths().into_iter().collect();
    let documents = output.documents.into_iter().map(|(url, document)| {
        let path = url.strip_prefix(base).with_context(|| url.clone())?;
        Ok((path.to_owned(), document))
    });
    let documents = documents.collect::<Result<BTreeMap<_, _>>>()?;
    ensure!(documents.keys().eq(&paths), "documents of {:?}", documents.keys());
    let requested = Requests::new(web.log().entries()).pages();
    ensure!(requested.len() == paths.len() && requested.values().all(|times| *times == 1), "{requested:?}");
    // Each outside link is decided once: all of them that were read went to `crawl.discovered`.
    let outside: usize = paths.iter().map(|path| links_read(path, cut).len()).sum();
    ensure!(output.summary["links"]["out_of_scope"] == outside, "{}", output.summary["links"]);
    Ok(documents)
}

/// Returns the outside links of a page that precede the cut of its body.
fn links_read(path: &str, cut: &[&str]) -> Vec<String> {
    if cut.contains(&path) { vec![] } else { heavy_links(path) }
}

fn links(document: &Value) -> Vec<&str> {
    document["links"].as_array().into_iter().flatten().filter_map(|link| link["url"].as_str()).collect()
}

#[tokio::test]
async fn every_heavy_page_is_fetched_once_and_has_a_document_with_all_its_links() -> Result<()> {
    // The fetcher reads 8 MiB of a body.
    let cut = ["/pictures-20mb"];
    let documents = crawl("", &cut).await?;
    for (path, document) in &documents {
        let is_cut = cut.contains(&path.as_str());
        let truncated = if is_cut { json!(["body"]) } else { Value::Null };
        ensure!(document["truncated"] == truncated, "{path}: {}", document["truncated"]);
        let outside = links_read(path, &cut);
        let same = outside == links(document) || (outside.is_empty() && !is_cut);
        ensure!(same, "{path}: {} links", links(document).len());
    }
    ensure!(documents["/depth"]["text"] == "deep");
    Ok(())
}

#[tokio::test]
async fn what_exceeds_a_small_record_limit_is_cut_and_marked_and_all_links_are_followed() -> Result<()> {
    // Pictures do not fit when compressed; the links behind them are lost with the rest of the body.
    let documents = crawl("--record-limit 1MiB", &["/pictures-6mb", "/pictures-20mb"]).await?;
    for (path, document) in &documents {
        let truncated = match path.as_str() {
            "/pictures-6mb" | "/pictures-20mb" => json!(["body"]),
            "/links-20000" | "/controls" => json!(["links"]),
            "/links-60000" => json!(["links", "text"]),
            _ => Value::Null,
        };
        println!(
            "{path}: {} of {} links, {} bytes: {truncated}",
            links(document).len(),
            document["links_total"],
            document["bytes"]
        );
        ensure!(document["truncated"] == truncated, "{path}: {}", document["truncated"]);
    }
    Ok(())
}
