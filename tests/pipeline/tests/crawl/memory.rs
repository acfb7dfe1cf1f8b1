//! Memory is bounded in bytes, whatever sites respond.

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, Requests};
use orbweaver_toyweb::{GreedyConfig, Logging, Serving, ToyWeb};

use crate::PATIENCE;

/// Crawls every page of a greedy web. Returns the peak memory of the process, in bytes.
async fn crawl(config: GreedyConfig) -> Result<u64> {
    let web = ToyWeb::start_greedy(config, &Serving { port: 0, logging: Logging::Memory(1 << 20) })?;
    let out = tempfile::tempdir()?;
    let options = "--max-depth 1 --concurrency 128";
    Orbweaver::crawl(web.start_url(), out.path(), options)?.end(PATIENCE * 4).await?.expect(0, &[])?;
    let output = Output::read(out.path())?;
    output.ended_by("complete")?;
    let pages = 1 + 2 * usize::from(config.hosts);
    ensure!(output.documents.len() == pages, "{} documents of {pages}", output.documents.len());
    for (url, document) in &output.documents {
        let links = document["links"].as_array().map_or(0, Vec::len);
        let expected = match url.rsplit('/').next() {
            Some("zeros") => 0,
            Some("links") => config.links as usize,
            _ => pages - 1,
        };
        ensure!(links == expected, "{url}: {links} links, not {expected}");
    }
    let requests = Requests::new(web.log().entries()).pages();
    let repeated: Vec<_> = requests.iter().filter(|(_, count)| **count != 1).collect();
    ensure!(requests.len() == pages && repeated.is_empty(), "not requested once: {repeated:?}");
    output.summary["peak_rss_bytes"].as_u64().ok_or_else(|| anyhow::anyhow!("no memory in the summary"))
}

#[tokio::test]
#[ignore = "takes minutes without optimisation"]
async fn bodies_that_grow_a_thousandfold_and_lists_of_sixty_thousand_links_take_no_more_than_512_mib() -> Result<()> {
    let peak = crawl(GreedyConfig { hosts: 128, zeros: 8 << 20, links: 60_000 }).await?;
    eprintln!("{} MB at most", peak / 1_000_000);
    ensure!(peak < 512 << 20, "{peak} bytes were resident");
    Ok(())
}
