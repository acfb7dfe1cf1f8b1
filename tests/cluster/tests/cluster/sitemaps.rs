//! Sitemaps on a cluster.

use std::{collections::BTreeSet, fs};

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Found, Plan, Service};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};
use tokio::time::{Duration, Instant, sleep};

use crate::{PATIENCE, crawls::done};

/// Number of pages that only sitemaps name, three for each file.
const PAGES: usize = 30;

/// Serves a site with one linked page, and pages that only the ten files of a sitemap index name.
fn serve(root: &std::path::Path) -> Result<ToyWeb> {
    let web = ToyWeb::start_directory(root, &Serving { port: 0, logging: Logging::Memory(10_000) })?;
    let base = web.start_url();
    fs::write(root.join("index.html"), "<title>start</title><a href=linked.html>a</a>")?;
    fs::write(root.join("linked.html"), "<title>linked</title>")?;
    fs::write(root.join("robots.txt"), format!("User-agent: *\nDisallow:\nSitemap: {base}index.xml\n"))?;
    let mut index = "<sitemapindex>".to_owned();
    for file in 0..PAGES / 3 {
        index += &format!("<sitemap><loc>{base}map{file}.xml</loc></sitemap>");
        let mut map = "<urlset>".to_owned();
        for page in 3 * file..3 * file + 3 {
            map += &format!("<url><loc>{base}page{page}.html</loc></url>");
            fs::write(root.join(format!("page{page}.html")), format!("<title>{page}</title>"))?;
        }
        fs::write(root.join(format!("map{file}.xml")), map + "</urlset>")?;
    }
    fs::write(root.join("index.xml"), index + "</sitemapindex>")?;
    Ok(web)
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn pages_that_only_sitemaps_name_have_documents_although_fetcher_and_extractor_are_killed() -> Result<()> {
    let root = tempfile::tempdir()?;
    let web = serve(root.path())?;
    let mut cluster = Cluster::start(Plan::on_shared_servers(4).with("ORBWEAVER_RATE_LIMITER__RATE", "10/s")).await?;
    let mut instances = cluster.add_all(PATIENCE).await?;
    done(&cluster, &["crawls", "create", "maps", "--scope", "any", "--sitemaps"])?;
    ensure!(done(&cluster, &["crawls", "show", "maps"])?.contains("sitemaps     yes"), "no line for sitemaps");
    done(&cluster, &["seed", web.start_url(), "--crawl", "maps"])?;
    let deadline = Instant::now() + PATIENCE;
    while web.log().entries().len() < 8 {
        ensure!(Instant::now() < deadline, "{} requests", web.log().entries().len());
        sleep(Duration::from_millis(50)).await;
    }
    for service in [Service::Fetcher, Service::Extractor] {
        let place = instances.iter().position(|instance| instance.name() == service.name());
        if let Some(place) = place {
            instances.swap_remove(place).kill().await?;
        }
        instances.push(cluster.add(service).await?);
    }
    cluster.complete(PATIENCE, &mut instances).await?;

    let found = Found::read(&cluster.log).await?;
    let pages = (0..PAGES).map(|page| format!("page{page}.html")).chain(["".to_owned(), "linked.html".to_owned()]);
    let expected: BTreeSet<String> = pages.map(|page| format!("{}{page}", web.start_url())).collect();
    let documents: BTreeSet<String> = found.documents.keys().cloned().collect();
    ensure!(documents == expected, "documents {documents:?}, not {expected:?}");
    for instance in &mut instances {
        instance.still_runs()?;
    }
    cluster.remove().await
}
