//! The commands of the README for a cluster, as they are written there.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, binary};
use orbweaver_pipeline_tests::Output;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{process::Command, time::timeout};

use crate::PATIENCE;

/// Returns the script of the README: its commands, with the web of the test for that of the user, with the servers that the tests
/// share, and with the commands of the other terminal while the crawl runs.
fn script(web: &ToyWeb, dir: &Path) -> Result<String> {
    let readme = include_str!("../../../../README.md");
    let block =
        readme.split("```sh\n").find(|block| block.contains("tests/stack up")).context("a block with servers")?;
    let block = block.split("```").next().unwrap_or_default();
    let (first, rest) = block.split_once("# Meanwhile").context("commands of another terminal")?;
    let (meanwhile, end) = rest.split_once("# At the end").context("commands at the end")?;
    let begin: Vec<&str> =
        first.lines().filter(|line| !line.contains("cargo build") && !line.contains("tests/stack up")).collect();
    let (crawl, begin) = begin.split_last().context("a crawl")?;
    ensure!(crawl.starts_with("orbweaver crawl ") && first.lines().count() - begin.len() == 3, "{first}");
    let without_heading =
        |part: &str| part.split_once('\n').map(|(_, commands)| commands.to_owned()).context("commands");
    let (meanwhile, end) = (without_heading(meanwhile)?, without_heading(end)?.replace("; tests/stack down", ""));
    let known = "until orbweaver crawls show --json | grep -q '\"pages\":[1-9]'; do sleep 0.2; done";
    let script =
        format!("set -euo pipefail\n{}\n{crawl} & crawl=$!\n{known}\n{meanwhile}wait $crawl\n{end}", begin.join("\n"));
    let (url, states) = (web.start_url(), format!("{}/orbweaver-", dir.display()));
    Ok(script.replace("docs.example.org", url).replace("/tmp/orbweaver-", &states))
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn the_commands_of_the_readme_crawl_on_kafka_and_cql() -> Result<()> {
    let cluster = Cluster::start(Plan::on_shared_servers(4)).await?;
    let config = WebConfig { pages: 20, bytes: 1_000, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?;
    let dir = tempfile::tempdir()?;
    let binaries = binary("orbweaver")?;
    let binaries = binaries.parent().context("a directory")?;
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let script = script(&web, dir.path())?;
    let commands = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("ORBWEAVER_KAFKA__PREFIX", cluster.prefix())
        .env("ORBWEAVER_CQL__KEYSPACE", cluster.keyspace())
        .env("ORBWEAVER_FETCHER__ALLOW_PRIVATE", "true")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let group = commands.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("it has ended")?;
    let output = timeout(PATIENCE, commands.wait_with_output()).await;
    // The services of commands that failed.
    let _ = kill_process_group(group, Signal::KILL);
    let output = output.context("the commands do not end")??;
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).join("\n");
    ensure!(output.status.success(), "{:?}\n{script}\n{said}", output.status.code());
    let documents = Output::of_cluster(&dir.path().join("docs.cluster.crawl"))?.documents;
    ensure!(documents.len() == 20, "{} documents: {said}", documents.len());
    cluster.remove().await
}
