//! A crawl next to the API: its figures, and the changes that users make while it runs. The process that runs the crawl implements it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::problem::Problem;

/// State of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrawlState {
    Running,
    Paused,
    /// The services are finishing their work.
    Stopping,
    Ended,
}

/// Change of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// No URL is dispatched until it is resumed.
    Pause,
    Resume,
    /// As by SIGINT: the work in flight is finished, and the crawl can be resumed by the command that started it.
    Stop,
}

impl Action {
    /// Actions on a crawl that runs.
    pub const ALL: [Self; 3] = [Self::Pause, Self::Resume, Self::Stop];
}

/// Figures of a crawl at one time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Overview {
    /// Host of the first seed, or the output directory.
    pub name: String,
    /// Name of the crawl, as in records.
    pub crawl: String,
    pub state: CrawlState,
    /// Reason why it ended, as `ended_by` of `summary.json`.
    pub ended_by: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Start of this run, RFC 3339 in UTC; `null`: the crawl is not running.
    pub started_at: Option<String>,
    /// Time of these figures, RFC 3339 in UTC.
    pub now: String,
    /// Duration of this run, in seconds.
    pub elapsed_seconds: f64,
    /// Pages per second, as a mean of the last 5 s, or of the whole run of a finished crawl.
    pub pages_per_second: f64,
    /// Queued URLs.
    pub queued: u64,
    /// URLs that sleep until their next visit.
    pub asleep: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Sites with queued URLs.
    pub sites: u64,
    /// Time of the next visit if all URLs sleep, RFC 3339 in UTC.
    pub next_due_at: Option<String>,
    /// Reason why the crawl is not faster, if there is one that users should know.
    pub why: Option<String>,
    /// Results of the URLs, as `urls` of `summary.json`.
    #[schema(value_type = Object)]
    pub urls: serde_json::Value,
    /// Services of a running crawl, in the order of the flow.
    pub stages: Vec<StageLag>,
    /// Sites with the most queued URLs, in descending order.
    pub busiest: Vec<SiteQueue>,
    pub blocked: Blocked,
    /// Sites to which no request is sent, by decision of a user.
    pub frozen: Vec<String>,
    /// Records that could not be processed.
    pub dead_letters: u64,
    /// Figures of the last minutes, oldest first: Unix time in seconds, pages, queued URLs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<(u64, u64, u64)>,
    /// Changes that the token may make; if there are any, sites can be changed, too.
    pub actions: Vec<Action>,
}

/// Records that a service has not completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct StageLag {
    pub name: String,
    /// Number of records by topic.
    pub lag: BTreeMap<String, u64>,
}

/// Queue of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SiteQueue {
    pub site: String,
    pub queued: u64,
}

/// Sites that get no request for some time after 429, 503 or a challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Blocked {
    pub count: u64,
    /// The first of them, in the order of their next request.
    pub names: Vec<String>,
    /// Time of the next request to one of them, RFC 3339 in UTC.
    pub next_request_at: Option<String>,
}

/// Setting of a site.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SiteSetting {
    /// Name of the site; a host or URL of a request is resolved to it.
    pub site: String,
    /// Whether no request may be sent to the site.
    pub frozen: bool,
    /// Maximum rate; `null`: that of the crawl.
    pub requests_per_second: Option<f64>,
    /// Time of the last change, RFC 3339 in UTC; `null`: the site has no setting of its own.
    pub changed_at: Option<String>,
}

/// New setting of a site.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteChange {
    /// Whether no request may be sent to the site.
    pub frozen: bool,
    /// Maximum rate, from 0.001 to 10; `null`: that of the crawl.
    #[schema(minimum = 0.001, maximum = 10)]
    pub requests_per_second: Option<f64>,
}

/// Records that could not be processed, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DeadLettersAnswer {
    #[schema(value_type = Vec<Object>)]
    pub dead_letters: Vec<serde_json::Value>,
    /// Cursor of the next ones; `null`: there are none.
    pub next: Option<String>,
}

/// Settings that apply to the crawl and its sites.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SettingsAnswer {
    pub settings: Vec<AppliedSetting>,
}

/// Record of `crawl.control`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AppliedSetting {
    /// `crawl/NAME` or `site/SITE`.
    pub key: String,
    /// Version: its offset.
    pub version: u64,
    /// Time of the change of a site, or of the creation of a crawl, RFC 3339 in UTC.
    pub time: String,
    #[schema(value_type = Object)]
    pub value: serde_json::Value,
}

/// Changes of a running crawl, and its records.
pub trait Controls: Send + Sync {
    fn act(&self, action: Action) -> BoxFuture<'_, Result<(), Problem>>;
    fn site(&self, site: String) -> BoxFuture<'_, Result<SiteSetting, Problem>>;
    fn change_site(&self, site: String, change: SiteChange) -> BoxFuture<'_, Result<SiteSetting, Problem>>;
    /// Returns at most `limit` dead letters from a cursor.
    fn dead_letters(&self, cursor: Option<String>, limit: usize) -> BoxFuture<'_, Result<DeadLettersAnswer, Problem>>;
    fn settings(&self) -> BoxFuture<'_, Result<SettingsAnswer, Problem>>;
}

/// A crawl next to the API.
#[derive(Clone)]
pub struct LiveCrawl {
    /// Figures, updated each second while the crawl runs.
    pub figures: watch::Receiver<Arc<Overview>>,
    /// `None`: the crawl is not running.
    pub controls: Option<Arc<dyn Controls>>,
}

impl fmt::Debug for LiveCrawl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCrawl").field("is_running", &self.controls.is_some()).finish_non_exhaustive()
    }
}
