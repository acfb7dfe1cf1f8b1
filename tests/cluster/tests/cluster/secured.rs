//! A crawl on servers that demand TLS and authentication, with secrets from files only.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, binary};
use orbweaver_pipeline_tests::Output;
use orbweaver_testkit::Stack;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};

use crate::PATIENCE;

/// Returns the variables with which services and the command connect to secured servers.
fn variables(stack: &Stack) -> Vec<(String, String)> {
    let plain = [("KAFKA__PROPERTIES__SECURITY__PROTOCOL", "sasl_ssl"), ("CQL__TLS", "true")];
    let mechanism = ("KAFKA__PROPERTIES__SASL__MECHANISM", "SCRAM-SHA-512");
    let files = [
        ("KAFKA__PROPERTIES__SSL__CA__LOCATION", "ca.pem"),
        ("KAFKA__PROPERTIES__SASL__USERNAME_FILE", "kafka-user"),
        ("KAFKA__PROPERTIES__SASL__PASSWORD_FILE", "kafka-password"),
        ("CQL__TLS_CA", "ca.pem"),
        ("CQL__TLS_CERTIFICATE", "client.pem"),
        ("CQL__TLS_KEY", "client.key"),
        ("CQL__USERNAME_FILE", "cql-user"),
        ("CQL__PASSWORD_FILE", "cql-password"),
    ];
    let files = files.map(|(name, file)| (name, stack.secret(file).display().to_string()));
    let plain = plain.into_iter().chain([mechanism]).map(|(name, value)| (name, value.to_owned()));
    plain.chain(files).map(|(name, value)| (format!("ORBWEAVER_{name}"), value)).collect()
}

/// Returns the properties of a client that uses the same files.
fn properties(stack: &Stack) -> Result<Vec<(String, String)>> {
    let read = |name| fs::read_to_string(stack.secret(name)).map(|text| text.trim_end().to_owned());
    let properties = [
        ("security.protocol", "sasl_ssl".to_owned()),
        ("sasl.mechanism", "SCRAM-SHA-512".to_owned()),
        ("ssl.ca.location", stack.secret("ca.pem").display().to_string()),
        ("sasl.username", read("kafka-user")?),
        ("sasl.password", read("kafka-password")?),
    ];
    Ok(properties.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

/// Returns the command with these variables and the inherited ones except `ORBWEAVER_*`.
fn orbweaver(arguments: &[&str], variables: &[(String, String)]) -> Result<Command> {
    let mut command = Command::new(binary("orbweaver")?);
    let inherited = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("ORBWEAVER_"));
    command.env_clear().envs(inherited).envs(variables.iter().map(|(name, value)| (name, value))).args(arguments);
    Ok(command)
}

/// Collects all files below a directory.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files(&entry.path(), found)?,
            _ => found.push(entry.path()),
        }
    }
    Ok(())
}

fn contains(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

#[tokio::test]
#[ignore = "starts servers of its own"]
async fn a_crawl_on_servers_that_demand_tls_and_a_log_in_is_complete_and_shows_no_secret() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stack = Stack::up(&folder.path().join("servers"), 29_192, &["--secured"])?;
    let secured = variables(&stack);
    let mut plan = Plan::on_servers(stack.brokers.clone(), stack.cql.clone(), 4);
    plan.variables.extend(secured.iter().cloned());
    plan.properties = properties(&stack)?;
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 200, bytes: 4_000, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?;
    let mut instances = cluster.add_all(PATIENCE).await?;

    let out = folder.path().join("out").display().to_string();
    let servers = ["--brokers", &stack.brokers, "--prefix", cluster.prefix()];
    let store = ["--cql", &stack.cql, "--keyspace", cluster.prefix()];
    let crawl = [&["crawl", web.start_url(), "--out", &*out, "--scope", "any"], &servers[..], &store].concat();
    let crawl = orbweaver(&crawl, &secured)?.spawn()?;
    let arguments: Vec<_> =
        instances.iter().filter_map(orbweaver_cluster_tests::Instance::id).chain([crawl.id()]).collect();
    let arguments: Vec<Vec<u8>> =
        arguments.iter().map(|id| fs::read(format!("/proc/{id}/cmdline"))).collect::<Result<_, _>>()?;
    let ended = crawl.wait_with_output()?;
    ensure!(ended.status.success(), "{}", ended.status);
    instances.iter_mut().try_for_each(|instance| instance.still_runs())?;
    let documents = Output::documents(Path::new(&out))?.len();
    ensure!(documents == web.truth().len(), "{documents} documents of {} pages", web.truth().len());

    let status = orbweaver(&[&["status", "--json"], &servers[..]].concat(), &secured)?.output()?;
    ensure!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let bare = orbweaver(&[&["status"], &servers[..]].concat(), &[])?.output()?;
    ensure!(!bare.status.success(), "the brokers ask for no password");

    // The CQL name and password are the defaults of every such server, so only Kafka's password is searched for.
    let password = fs::read_to_string(stack.secret("kafka-password"))?;
    let mut written = vec![];
    files(cluster.folder_of(1).parent().context("a folder of all")?, &mut written)?;
    files(Path::new(&out), &mut written)?;
    ensure!(written.len() > 10, "{written:?}");
    for path in written {
        ensure!(!contains(&fs::read(&path)?, password.trim_end()), "the password is in {}", path.display());
    }
    for text in arguments.iter().chain([&status.stdout, &status.stderr, &bare.stderr]) {
        ensure!(!contains(text, password.trim_end()), "the password is in {}", String::from_utf8_lossy(text));
    }
    Ok(())
}
