//! Content of the CQL server after a crawl, read row by row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use orbweaver_cluster_tests::Digest;
use orbweaver_store::{CqlConfig, CqlStore, PageRow, RedirectRow, Store, StoreMetrics};
use orbweaver_url::{CrawlName, Fingerprint};
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::kept::{Keepsakes, Robots};

/// Timeout for connecting to the server.
const CONNECTS_WITHIN: Duration = Duration::from_secs(60);
/// Product token of the services' default user agent.
const AGENT: &str = "orbweaver";

/// The rows of one URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Row of its last fetch.
    pub page: Option<PageRow>,
    /// Links of the page, from all chunks.
    pub links: Option<Digest>,
    pub redirect: Option<RedirectRow>,
}

/// All rows that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// By canonical URL.
    pub urls: BTreeMap<String, Rows>,
    /// By authority.
    pub robots: BTreeMap<String, Robots>,
    /// Canonical URLs of all pages with a row.
    pub pages: Vec<String>,
}

impl Stored {
    /// Reads the rows of all URLs and authorities that should have some. `pages` are the keys of all rows of pages.
    pub(crate) async fn read(cql: &str, keyspace: &str, kept: &Keepsakes, pages: Vec<String>) -> Result<Self> {
        let config = CqlConfig {
            nodes: vec![cql.to_owned()],
            keyspace: keyspace.to_owned(),
            replication_factor: 1,
            ..CqlConfig::default()
        };
        let connecting = CqlStore::connect(config, StoreMetrics::register(&Registry::new())?);
        let store = Arc::new(timeout(CONNECTS_WITHIN, connecting).await.context("the CQL server does not answer")??);
        let mut stored = Self { pages, ..Self::default() };
        let mut reads = JoinSet::new();
        for url in kept.urls.keys().cloned() {
            let store = Arc::clone(&store);
            reads.spawn(async move { rows(&store, &url).await.map(|rows| (url, rows)) });
        }
        while let Some(read) = reads.join_next().await {
            let (url, rows) = read??;
            stored.urls.insert(url, rows);
        }
        for authority in kept.robots.keys() {
            if let Some(row) = store.robots(&format!("{authority} {AGENT}")).await? {
                stored.robots.insert(authority.clone(), Robots { status: row.status, body: row.body });
            }
        }
        Ok(stored)
    }
}

async fn rows(store: &CqlStore, url: &str) -> Result<Rows> {
    let fingerprint = Fingerprint::of(&CrawlName::default(), url);
    Ok(Rows {
        page: store.page(fingerprint).await?,
        links: store.links(fingerprint).await?.map(|row| Digest::of(row.links.iter().map(|(url, _)| url.as_str()))),
        redirect: store.redirect(fingerprint).await?,
    })
}
