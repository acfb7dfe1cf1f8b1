//! The statements, prepared once per session.

use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::failure::Failure;

/// Prepared statements; values are bound by name.
pub(super) struct Statements {
    /// Page, its fetch, and its row in the list of its site. The first two have the same key: one mutation if the server
    /// stores the tables together by key.
    pub(super) put_page: Batch,
    /// Chunk of links other than the first.
    pub(super) put_chunk: PreparedStatement,
    /// First chunk, and the deletion of older lists.
    pub(super) put_links: Batch,
    pub(super) put_redirect: PreparedStatement,
    pub(super) put_robots: PreparedStatement,
    pub(super) put_capture: PreparedStatement,
    pub(super) put_content: PreparedStatement,
    /// Deletion of a page from the five tables that have its fingerprint as the key.
    pub(super) erase: Batch,
    /// Deletion of a page from the list of its site.
    pub(super) unlist: PreparedStatement,
    pub(super) pages: PreparedStatement,
    pub(super) fetches: PreparedStatement,
    pub(super) links: PreparedStatement,
    pub(super) redirects: PreparedStatement,
    pub(super) robots: PreparedStatement,
    pub(super) captures: PreparedStatement,
    pub(super) contents: PreparedStatement,
    /// Site of a page.
    pub(super) page_site: PreparedStatement,
    /// Pages of a crawl and site in one bucket, after a fingerprint.
    pub(super) site_pages: PreparedStatement,
}

const PAGE: &str = "fingerprint, key, url, site, fetched_at, status, outcome, reason, content_type, etag, last_modified, \
                    bytes, content_hash, depth, via";
const FETCH: &str = "fingerprint, at, status, outcome, reason, bytes, content_hash";
const LINKS: &str = "fingerprint, at, chunk, chunks, packed";
const REDIRECT: &str = "fingerprint, source, target, status, at";
const ROBOTS: &str = "authority, fetched_at, status, body, expires_at";
const CAPTURE: &str = "fingerprint, at, epoch, file, record_offset, record_length, status, revisit, content_hash";
const CONTENT: &str = "content_hash, fingerprint, at";
const SITE_PAGE: &str = "crawl, site, bucket, fingerprint, status";

/// Number of history events per result page.
const FETCHES_AT_ONCE: i32 = 1000;
/// Number of captures per result page: readers mostly need the latest one.
const CAPTURES_AT_ONCE: i32 = 100;
/// Number of link chunks per result page: 2 MiB.
const CHUNKS_AT_ONCE: i32 = 4;

impl Statements {
    pub(super) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, Failure> {
        // Names include the keyspace: statements that depend on `USE` are prepared again for the keyspace of each
        // connection.
        let put = async |table: &str, columns: &str| {
            let marks = columns.replace(", ", ", :");
            let text =
                format!("INSERT INTO \"{keyspace}\".{table} ({columns}) VALUES (:{marks}) USING TIMESTAMP :written_at");
            prepare(session, &text).await
        };
        let get = async |table: &str, columns: &str, rest: &str| {
            let key = match table {
                "robots" => "authority",
                "contents" => "content_hash",
                "site_pages" => "crawl",
                _ => "fingerprint",
            };
            prepare(session, &format!("SELECT {columns} FROM \"{keyspace}\".{table} WHERE {key} = ?{rest}")).await
        };
        let mut put_page = Batch::new(BatchType::Unlogged);
        put_page.append_statement(put("pages", PAGE).await?);
        put_page.append_statement(put("fetches", FETCH).await?);
        put_page.append_statement(put("site_pages", SITE_PAGE).await?);
        put_page.set_is_idempotent(true);
        let older = "WHERE fingerprint = :fingerprint AND at < :at";
        let older = format!("DELETE FROM \"{keyspace}\".links USING TIMESTAMP :written_at {older}");
        let mut put_links = Batch::new(BatchType::Unlogged);
        let put_chunk = put("links", LINKS).await?;
        put_links.append_statement(put_chunk.clone());
        put_links.append_statement(prepare(session, &older).await?);
        put_links.set_is_idempotent(true);
        let mut erase = Batch::new(BatchType::Unlogged);
        for table in ["pages", "fetches", "links", "redirects", "captures"] {
            let values = "WHERE fingerprint = :fingerprint";
            let text = format!("DELETE FROM \"{keyspace}\".{table} USING TIMESTAMP :erased_at {values}");
            erase.append_statement(prepare(session, &text).await?);
        }
        erase.set_is_idempotent(true);
        let unlist = "WHERE crawl = :crawl AND site = :site AND bucket = :bucket AND fingerprint = :fingerprint";
        let unlist = format!("DELETE FROM \"{keyspace}\".site_pages USING TIMESTAMP :erased_at {unlist}");
        let after = " AND site = ? AND bucket = ? AND fingerprint > ? LIMIT ?";
        let mut links = get("links", without_key(LINKS), "").await?;
        links.set_page_size(CHUNKS_AT_ONCE);
        let mut fetches = get("fetches", without_key(FETCH), " LIMIT ?").await?;
        fetches.set_page_size(FETCHES_AT_ONCE);
        let mut captures = get("captures", CAPTURE, "").await?;
        captures.set_page_size(CAPTURES_AT_ONCE);
        Ok(Self {
            put_page,
            put_chunk,
            put_links,
            put_redirect: put("redirects", REDIRECT).await?,
            put_robots: put("robots", ROBOTS).await?,
            put_capture: put("captures", CAPTURE).await?,
            put_content: put("contents", CONTENT).await?,
            erase,
            unlist: prepare(session, &unlist).await?,
            pages: get("pages", PAGE, "").await?,
            fetches,
            links,
            redirects: get("redirects", REDIRECT, "").await?,
            robots: get("robots", ROBOTS, "").await?,
            captures,
            contents: get("contents", CONTENT, "").await?,
            page_site: get("pages", "site", "").await?,
            site_pages: get("site_pages", "fingerprint, status", after).await?,
        })
    }
}

fn without_key(columns: &str) -> &str {
    columns.trim_start_matches("fingerprint, ")
}

async fn prepare(session: &Session, text: &str) -> Result<PreparedStatement, Failure> {
    let mut prepared = session.prepare(text).await?;
    // A write carries its own time, so the driver may repeat it at another node.
    prepared.set_is_idempotent(true);
    Ok(prepared)
}
