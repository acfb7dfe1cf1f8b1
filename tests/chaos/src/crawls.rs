//! The crawls of a run, with agents of their own: two of the whole web, one of its first pages that is deleted, and one
//! with revisits, of another web.

use anyhow::{Context as _, Result, ensure};
use orbweaver_url::CrawlName;
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::fleet::Fleet;
use crate::news::policy;

/// Time allowed for a command while a broker elects leaders.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

/// A crawl of the gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateCrawl {
    pub(crate) name: &'static str,
    /// Product token of its user agent, in lower case.
    pub(crate) token: &'static str,
}

/// Crawl with the settings of the services.
pub(crate) const FIRST: GateCrawl = GateCrawl { name: "default", token: "orbweaver" };
/// Crawl with a fetch profile, which is paused for a while.
pub(crate) const SECOND: GateCrawl = GateCrawl { name: "second", token: "secondbot" };
/// Crawl that is deleted.
pub(crate) const THIRD: GateCrawl = GateCrawl { name: "passing", token: "thirdbot" };
/// Crawl that is created with the name of [`THIRD`] after its deletion.
pub(crate) const FOURTH: GateCrawl = GateCrawl { name: "passing#2", token: "fourthbot" };
/// Crawl with revisits.
pub(crate) const NEWS: GateCrawl = GateCrawl { name: "news", token: "newsbot" };
/// User agents of [`SECOND`], [`THIRD`], [`FOURTH`] and [`NEWS`].
const SECOND_AGENT: &str = "SecondBot/1.0";
const THIRD_AGENT: &str = "ThirdBot/1.0";
const FOURTH_AGENT: &str = "FourthBot/1.0";
const NEWS_AGENT: &str = "NewsBot/1.0";
/// Time allowed for one command that deletes a crawl: its proof waits for a lease after the last change of an owner.
const DELETED_WITHIN: Duration = Duration::from_secs(600);
/// Time in which a deletion is repeated that was interrupted, as by a server that is down.
const REPEATED_WITHIN: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_secs(1);

impl GateCrawl {
    pub(crate) fn name(self) -> Result<CrawlName> {
        CrawlName::new(self.name).with_context(|| format!("the name {}", self.name))
    }

    /// Returns `true` if a request with this user agent belongs to the crawl.
    pub(crate) fn sends(self, agent: &str) -> bool {
        agent.split(['/', ' ']).next().is_some_and(|token| token.eq_ignore_ascii_case(self.token))
    }
}

/// Creates the second crawl and seeds it, as a user would.
pub(crate) async fn create_second(fleet: &Fleet, url: &str) -> Result<()> {
    let options = ["--scope", "any", "--user-agent", SECOND_AGENT];
    orbweaver(fleet, &[&["crawls", "create", SECOND.name], &options[..]].concat()).await?;
    orbweaver(fleet, &["seed", "--crawl", SECOND.name, url]).await
}

/// Creates the crawl with revisits of these pages. All are seeds, and links are not followed: a page that is found at a
/// lesser depth is visited at once.
pub(crate) async fn create_news(fleet: &Fleet, pages: &[&str]) -> Result<()> {
    let revisits = policy();
    let options = ["--scope", "any", "--max-depth", "0", "--user-agent", NEWS_AGENT, "--revisit", &*revisits];
    orbweaver(fleet, &[&["crawls", "create", NEWS.name], &options[..]].concat()).await?;
    orbweaver(fleet, &[&["seed", "--crawl", NEWS.name], pages].concat()).await
}

/// Ends the revisits, after which the crawl completes.
pub(crate) async fn end_revisits(fleet: &Fleet) -> Result<()> {
    orbweaver(fleet, &["crawls", "set", NEWS.name, "--revisit", "never"]).await
}

/// Pauses or resumes the second crawl: `pause` or `resume`.
pub(crate) async fn control_second(fleet: &Fleet, command: &str) -> Result<()> {
    orbweaver(fleet, &["crawls", command, SECOND.name]).await
}

/// Creates the third crawl, deletes it once it has pages, and creates another one with its name.
pub(crate) async fn delete_third(fleet: &Fleet, url: &str) -> Result<()> {
    let create = ["crawls", "create", THIRD.name, "--scope", "any"];
    orbweaver(fleet, &[&create[..], &["--max-depth", "1", "--user-agent", THIRD_AGENT]].concat()).await?;
    orbweaver(fleet, &["seed", "--crawl", THIRD.name, url]).await?;
    let begun = Instant::now();
    while pages_of(fleet, THIRD).await? == 0 {
        ensure!(begun.elapsed() < REPEATED_WITHIN, "`{}` gets no page", THIRD.name);
        sleep(PAUSE).await;
    }
    let store = ["--cql", &*fleet.stack.cql, "--keyspace", fleet.cluster.keyspace()];
    let delete = [&["crawls", "delete", THIRD.name], &store[..]].concat();
    while let Err(error) = run(fleet, &delete, DELETED_WITHIN).await {
        fleet.journal.note("deletion", json!(format!("{error:#}")));
        ensure!(begun.elapsed() < REPEATED_WITHIN, "`{}` is not deleted: {error:#}", THIRD.name);
        sleep(PAUSE).await;
    }
    orbweaver(fleet, &[&create[..], &["--max-depth", "0", "--user-agent", FOURTH_AGENT]].concat()).await?;
    orbweaver(fleet, &["seed", "--crawl", THIRD.name, url]).await
}

/// Returns the number of pages of a crawl, as far as it is recorded.
async fn pages_of(fleet: &Fleet, crawl: GateCrawl) -> Result<u64> {
    let shown = run(fleet, &["crawls", "show", crawl.name, "--json"], COMMAND_WITHIN).await?;
    let shown: serde_json::Value = serde_json::from_str(&shown)?;
    shown["pages"].as_u64().with_context(|| format!("pages in {shown}"))
}

/// Runs a command of users, which must succeed.
async fn orbweaver(fleet: &Fleet, arguments: &[&str]) -> Result<()> {
    run(fleet, arguments, COMMAND_WITHIN).await.map(drop)
}

/// Runs a command of users, which must succeed within this time. Returns its output.
async fn run(fleet: &Fleet, arguments: &[&str], within: Duration) -> Result<String> {
    let mut command = Command::new(orbweaver_cluster_tests::binary("orbweaver")?);
    command.args(arguments).env("ORBWEAVER_KAFKA__BROKERS", &fleet.stack.brokers);
    command.env("ORBWEAVER_KAFKA__PREFIX", fleet.cluster.prefix()).kill_on_drop(true);
    let what = || format!("orbweaver {}", arguments.join(" "));
    let output = timeout(within, command.output()).await.with_context(|| format!("{} does not end", what()))??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {:?}: {said}", what(), output.status.code());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
