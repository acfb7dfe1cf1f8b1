//! The store on ScyllaDB and Cassandra.
//!
//! ```text
//! write ── rows: columns, event time ──> at most `concurrency` requests ──> session ── by token ──> the replicas
//! ```
//!
//! A write resolves once the number of replicas required by the consistency has acknowledged it. Whether it survives a
//! crash of the server depends on the server's settings (Cassandra: `commitlog_sync: batch` or `group`; with its
//! default, `periodic`, a killed server loses its latest acknowledged writes, and only other replicas have them).
//! Transient errors are [`StoreError::Failed`]: [`StoreWriter`](crate::StoreWriter) retries such a write until it
//! succeeds. This module leaves retries to the driver, which uses other nodes, and replaces a session that fails for
//! seconds.

mod config;
mod failure;
mod inspect;
mod links;
mod rows;
mod schema;
mod session;
mod statements;
mod tls;

use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, try_join_all};
use orbweaver_messages::Millis;
use orbweaver_settings::Section as _;
use orbweaver_url::{CrawlName, Fingerprint};
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::response::PagingState;
use scylla::response::query_result::{MaybeFirstRowError, QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Semaphore;

pub use self::config::{CqlConfig, CqlConsistency};
use self::failure::Failure;
pub use self::inspect::{Inspection, KeyspaceSeen, MigrationSeen, MigrationState, NodeClock, NodeSeen, inspect};
use self::links::{ChunkColumns, Collected};
use self::rows::{
    CaptureColumns, ContentColumns, FetchColumns, PageColumns, RedirectColumns, RobotsColumns, SitePageColumns,
    SitePageKey,
};
use self::session::{PreparedSession, Sessions};
use self::statements::Statements;
use crate::row::add_capture;
use crate::{
    CaptureRow, ContentRow, DeclaredCanonical, Erase, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage,
    Store, StoreError, StoreMetrics, Write,
};

/// Store on the servers of a CQL cluster, shared by any number of processes.
pub struct CqlStore {
    sessions: Sessions,
    room: Semaphore,
    metrics: StoreMetrics,
}

impl CqlStore {
    /// Connects, and creates keyspace and tables if they are missing. Waits without limit for unavailable servers, and
    /// logs the reason; drop the future to cancel.
    ///
    /// # Errors
    /// Returns an error if a setting is out of range, the user is refused, or the keyspace has tables of another
    /// program.
    pub async fn connect(config: CqlConfig, metrics: StoreMetrics) -> Result<Self, StoreError> {
        config.check().map_err(|error| StoreError::Refused(error.to_string()))?;
        if config.password.is_some() && !config.tls {
            tracing::warn!(
                nodes = ?config.nodes,
                "`cql.password` is sent to the CQL servers unencrypted: set `cql.tls`, unless the network is trusted"
            );
        }
        let live = PreparedSession::open_patiently(&config).await?;
        let room = Semaphore::new(config.concurrency);
        Ok(Self { sessions: Sessions::new(config, metrics.clone(), live), room, metrics })
    }

    /// Runs one request within the concurrency limit; repeats it if the session was replaced.
    async fn run<T, F, R>(&self, doing: &str, request: F) -> Result<T, StoreError>
    where
        F: Fn(Arc<PreparedSession>) -> R,
        R: Future<Output = Result<T, ExecutionError>> + Send,
    {
        let closed = |_| StoreError::Failed(format!("{doing}: the store is closed"));
        let _permit = self.room.acquire().await.map_err(closed)?;
        let mut live = self.sessions.current();
        loop {
            let failure = match request(live).await {
                Ok(answer) => {
                    self.sessions.succeeded();
                    return Ok(answer);
                }
                Err(error) => Failure::from(error),
            };
            self.metrics.cql_errors.with_label_values(&[failure.kind.name()]).inc();
            if failure.kind.is_transient()
                && let Some(renewed) = self.sessions.failed().await
            {
                live = renewed;
                continue;
            }
            return Err(failure.while_doing(doing));
        }
    }

    async fn put(&self, write: &Write) -> Result<(), StoreError> {
        match write {
            Write::Page { crawl, row } => {
                let values = &rows::of_page(crawl, row)?;
                let put = |live: Arc<PreparedSession>| async move {
                    live.session.batch(&live.statements.put_page, values).await
                };
                self.run("writing a page", put).await.map(drop)
            }
            Write::Links(row) => self.put_links(row).await,
            Write::Redirect(row) => {
                self.put_row("writing a redirect", |put| &put.put_redirect, &rows::of_redirect(row)?).await
            }
            Write::Robots(row) => {
                self.put_row("writing a robots.txt", |put| &put.put_robots, &rows::of_robots(row)?).await
            }
            Write::Capture(row) => self.put_capture(row).await,
        }
    }

    /// Writes the location of a response, and then the row of its content, which leads to it.
    async fn put_capture(&self, row: &CaptureRow) -> Result<(), StoreError> {
        self.put_row("writing a capture", |put| &put.put_capture, &rows::of_capture(row)?).await?;
        let Some(content) = row.content() else { return Ok(()) };
        self.put_row("writing a content", |put| &put.put_content, &rows::of_content(&content)?).await
    }

    async fn put_links(&self, row: &LinksOut) -> Result<(), StoreError> {
        let (chunks, older) = links::of_links(row)?;
        let (mut chunks, doing) = (chunks.into_iter(), "writing links");
        let Some(first) = chunks.next() else { return Ok(()) };
        for chunk in chunks {
            self.put_row(doing, |put| &put.put_chunk, &chunk).await?;
        }
        let values = &(first, older);
        let put =
            |live: Arc<PreparedSession>| async move { live.session.batch(&live.statements.put_links, values).await };
        self.run(doing, put).await.map(drop)
    }

    async fn put_row(
        &self,
        doing: &str,
        statement: fn(&Statements) -> &PreparedStatement,
        values: &(impl SerializeRow + Sync),
    ) -> Result<(), StoreError> {
        let put = |live: Arc<PreparedSession>| async move {
            live.session.execute_unpaged(statement(&live.statements), values).await
        };
        self.run(doing, put).await.map(drop)
    }

    /// Reads the row of a table at a key.
    async fn get<C, R>(
        &self,
        table: &'static str,
        statement: fn(&Statements) -> &PreparedStatement,
        values: impl SerializeRow + Send + Sync,
        key: impl Display + Send,
    ) -> Result<Option<R>, StoreError>
    where
        C: for<'a> DeserializeRow<'a, 'a>,
        R: TryFrom<C, Error = String>,
    {
        let doing = format!("reading {table}");
        let values = &values;
        let get = |live: Arc<PreparedSession>| async move {
            live.session.execute_unpaged(statement(&live.statements), values).await
        };
        let rows = rows_of(self.run(&doing, get).await?, &doing)?;
        let damaged = |reason: String| StoreError::Damaged { key: format!("{table}/{key}"), reason };
        match rows.maybe_first_row::<C>() {
            Ok(row) => row.map(R::try_from).transpose().map_err(damaged),
            Err(MaybeFirstRowError::DeserializationFailed(error)) => Err(damaged(error.to_string())),
            Err(error) => Err(other_columns(&doing, &error)),
        }
    }

    async fn fetches(&self, fingerprint: Fingerprint, limit: usize) -> Result<Vec<FetchEvent>, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let mut events = vec![];
        // The server refuses a limit of 0.
        if limit == 0 {
            return Ok(events);
        }
        let take = |columns: FetchColumns| {
            events.push(columns.try_into()?);
            Ok(ControlFlow::Continue(()))
        };
        let place = ("fetches", fingerprint);
        self.each(place, |get| &get.fetches, &(&fingerprint.0[..], limit), take).await?;
        Ok(events)
    }

    async fn captures_of(&self, fingerprint: Fingerprint, limit: usize) -> Result<Vec<CaptureRow>, StoreError> {
        let mut captures: Vec<CaptureRow> = vec![];
        let take = |columns: CaptureColumns| Ok(add_capture(&mut captures, columns.try_into()?, limit));
        self.each(("captures", fingerprint), |get| &get.captures, &(&fingerprint.0[..],), take).await?;
        Ok(captures)
    }

    async fn links_of(&self, fingerprint: Fingerprint) -> Result<Option<LinksOut>, StoreError> {
        let (mut collected, mut found) = (Collected::default(), None);
        let take = |columns: ChunkColumns| {
            found = collected.add(fingerprint, &columns)?;
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let place = ("links", fingerprint);
        self.each(place, |get| &get.links, &(&fingerprint.0[..],), take).await?;
        Ok(found)
    }

    async fn canonical_of(&self, fingerprint: Fingerprint) -> Result<Option<DeclaredCanonical>, StoreError> {
        let mut found = None;
        let take = |columns: ChunkColumns| {
            found = columns.canonical()?;
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        self.each(("links", fingerprint), |get| &get.links, &(&fingerprint.0[..],), take).await?;
        Ok(found.flatten())
    }

    /// Returns the site of a page, if the page is stored.
    async fn site_of(&self, fingerprint: Fingerprint) -> Result<Option<String>, StoreError> {
        let mut site = None;
        let take = |columns: (Option<String>,)| {
            site = columns.0;
            Ok(ControlFlow::Break(()))
        };
        self.each(("pages", fingerprint), |get| &get.page_site, &(&fingerprint.0[..],), take).await?;
        Ok(site)
    }

    async fn pages_of(
        &self,
        (crawl, site): (&CrawlName, &str),
        after: Option<Fingerprint>,
        limit: usize,
    ) -> Result<Vec<SitePage>, StoreError> {
        let (mut pages, first) = (vec![], after.map_or(0, rows::bucket_of));
        // Every fingerprint is later than no bytes.
        let after = after.map_or_else(Vec::new, |after| after.0.to_vec());
        for bucket in first..rows::BUCKETS {
            let left = limit.saturating_sub(pages.len());
            // The server refuses a limit of 0.
            if left == 0 {
                break;
            }
            let take = |columns: SitePageColumns| {
                pages.push(columns.try_into()?);
                Ok(ControlFlow::Continue(()))
            };
            let values = (&**crawl, site, bucket, &after[..], i32::try_from(left).unwrap_or(i32::MAX));
            self.each(("site_pages", site), |get| &get.site_pages, &values, take).await?;
        }
        Ok(pages)
    }

    /// Reads the rows at a key of a table, one result page at a time, until `take` breaks.
    async fn each<C>(
        &self,
        (table, key): (&str, impl Display),
        statement: fn(&Statements) -> &PreparedStatement,
        values: &(impl SerializeRow + Sync),
        mut take: impl FnMut(C) -> Result<ControlFlow<()>, String>,
    ) -> Result<(), StoreError>
    where
        C: for<'a> DeserializeRow<'a, 'a>,
    {
        let doing = format!("reading {table}");
        let mut from = PagingState::start();
        loop {
            let state = &from;
            let get = |live: Arc<PreparedSession>| async move {
                live.session.execute_single_page(statement(&live.statements), values, state.clone()).await
            };
            let (answer, next) = self.run(&doing, get).await?;
            let rows = rows_of(answer, &doing)?;
            for columns in rows.rows::<C>().map_err(|error| other_columns(&doing, &error))? {
                let taken = columns.map_err(|error| error.to_string()).and_then(&mut take);
                let damaged = |reason| StoreError::Damaged { key: format!("{table}/{key}"), reason };
                if taken.map_err(damaged)?.is_break() {
                    return Ok(());
                }
            }
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => from = next,
                ControlFlow::Break(()) => return Ok(()),
            }
        }
    }
}

fn rows_of(answer: QueryResult, doing: &str) -> Result<QueryRowsResult, StoreError> {
    answer.into_rows_result().map_err(|error| StoreError::Failed(format!("{doing}: {error}")))
}

fn other_columns(doing: &str, error: &dyn Display) -> StoreError {
    StoreError::Refused(format!("{doing}: the columns of the table are not those that this version expects: {error}"))
}

impl Erase for CqlStore {
    fn erase<'a>(
        &'a self,
        crawl: &'a CrawlName,
        fingerprint: Fingerprint,
        until_ms: Millis,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let erased_at = rows::last_write_time(until_ms)?;
            // First: once the page is deleted, its site is unknown.
            if let Some(site) = self.site_of(fingerprint).await? {
                let (bucket, fingerprint) = (rows::bucket_of(fingerprint), &fingerprint.0[..]);
                let listed = SitePageKey { crawl, site: &site, bucket, fingerprint, erased_at };
                self.put_row("deleting a page from the list of its site", |put| &put.unlist, &listed).await?;
            }
            let erase = |live: Arc<PreparedSession>| async move {
                let of_table = (erased_at, &fingerprint.0[..]);
                live.session.batch(&live.statements.erase, (of_table, of_table, of_table, of_table, of_table)).await
            };
            self.run("deleting a page", erase).await.map(drop)
        }
        .boxed()
    }
}

impl Store for CqlStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { try_join_all(writes.iter().map(|write| self.put(write))).await.map(drop) }.boxed()
    }

    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        self.get::<PageColumns, _>("pages", |get| &get.pages, (fingerprint.0,), fingerprint).boxed()
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        self.fetches(fingerprint, limit).boxed()
    }

    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        self.links_of(fingerprint).boxed()
    }

    fn canonical(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<DeclaredCanonical>, StoreError>> {
        self.canonical_of(fingerprint).boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        self.get::<RedirectColumns, _>("redirects", |get| &get.redirects, (fingerprint.0,), fingerprint).boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        self.get::<RobotsColumns, _>("robots", |get| &get.robots, (authority,), authority).boxed()
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        self.captures_of(fingerprint, limit).boxed()
    }

    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        self.get::<ContentColumns, _>("contents", |get| &get.contents, (content_hash,), content_hash).boxed()
    }

    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        self.pages_of((crawl, site), after, limit).boxed()
    }
}
