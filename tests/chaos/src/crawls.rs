//! The two crawls of a run: both of the whole web, with agents of their own.

use anyhow::{Context as _, Result};
use orbweaver_url::CrawlName;
use tokio::process::Command;
use tokio::time::{Duration, timeout};

use crate::fleet::Fleet;

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
/// User agent of [`SECOND`].
const SECOND_AGENT: &str = "SecondBot/1.0";

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

/// Pauses or resumes the second crawl: `pause` or `resume`.
pub(crate) async fn control_second(fleet: &Fleet, command: &str) -> Result<()> {
    orbweaver(fleet, &["crawls", command, SECOND.name]).await
}

/// Runs a command of users, which must succeed.
async fn orbweaver(fleet: &Fleet, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(orbweaver_cluster_tests::binary("orbweaver")?);
    command.args(arguments).env("ORBWEAVER_KAFKA__BROKERS", &fleet.stack.brokers);
    command.env("ORBWEAVER_KAFKA__PREFIX", fleet.cluster.prefix()).kill_on_drop(true);
    let what = || format!("orbweaver {}", arguments.join(" "));
    let output =
        timeout(COMMAND_WITHIN, command.output()).await.with_context(|| format!("{} does not end", what()))??;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {:?}: {said}", what(), output.status.code());
    Ok(())
}
