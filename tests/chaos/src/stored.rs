//! Content of the CQL server after a crawl, read row by row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use orbweaver_cluster_tests::Digest;
use orbweaver_store::{CqlConfig, CqlStore, PageRow, RedirectRow, Store, StoreMetrics};
use orbweaver_url::Fingerprint;
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::crawls::GateCrawl;
use crate::kept::{Keepsakes, Robots};

/// Timeout for connecting to the server.
const CONNECTS_WITHIN: Duration = Duration::from_secs(60);

/// The rows of one URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Row of its last fetch.
    pub page: Option<PageRow>,
    /// Links of the page, from all chunks.
    pub links: Option<Digest>,
    pub redirect: Option<RedirectRow>,
}

/// Rows of a crawl.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// By canonical URL.
    pub urls: BTreeMap<String, Rows>,
    /// By authority.
    pub robots: BTreeMap<String, Robots>,
    /// Canonical URLs of all pages with a row, once for each row.
    pub pages: Vec<String>,
    /// Number of crawls, each of which has a row of a page in `pages`.
    pub crawls: usize,
}

impl Stored {
    /// Reads the rows of all URLs and authorities that should have some of this crawl.
    pub(crate) async fn read((cql, keyspace): (&str, &str), kept: &Keepsakes, crawl: GateCrawl) -> Result<Self> {
        let config = CqlConfig {
            nodes: vec![cql.to_owned()],
            keyspace: keyspace.to_owned(),
            replication_factor: 1,
            ..CqlConfig::default()
        };
        let connecting = CqlStore::connect(config, StoreMetrics::register(&Registry::new())?);
        let store = Arc::new(timeout(CONNECTS_WITHIN, connecting).await.context("the CQL server does not answer")??);
        let mut stored = Self { crawls: 1, ..Self::default() };
        let mut reads = JoinSet::new();
        for url in kept.urls.keys().cloned() {
            let (store, fingerprint) = (Arc::clone(&store), Fingerprint::of(&crawl.name()?, &url));
            reads.spawn(async move { rows(&store, fingerprint).await.map(|rows| (url, rows)) });
        }
        while let Some(read) = reads.join_next().await {
            let (url, rows) = read??;
            stored.urls.insert(url, rows);
        }
        for authority in kept.robots.keys() {
            if let Some(row) = store.robots(&format!("{authority} {}", crawl.token)).await? {
                stored.robots.insert(authority.clone(), Robots { status: row.status, body: row.body });
            }
        }
        Ok(stored)
    }
}

async fn rows(store: &CqlStore, fingerprint: Fingerprint) -> Result<Rows> {
    Ok(Rows {
        page: store.page(fingerprint).await?,
        links: store.links(fingerprint).await?.map(|row| Digest::of(row.links.iter().map(|(url, _)| url.as_str()))),
        redirect: store.redirect(fingerprint).await?,
    })
}
