//! A crawl on servers that demand TLS and authentication, with secrets from files only.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, binary};
use orbweaver_pipeline_tests::Output;
use orbweaver_testkit::Stack;
use orbweaver_toyweb::{Logging, Serving, ToyWeb, WebConfig};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use scylla::client::{session::Session, session_builder::SessionBuilder};
use tokio::time::{Instant, interval};

use crate::PATIENCE;

/// Role of the services. The password of the server's initial role is its name, so logs cannot be searched for it.
const ROLE: &str = "crawler";

/// Files with the name of a role of the CQL server and its password.
struct Role {
    name: PathBuf,
    password: PathBuf,
}

impl Role {
    /// Creates a role with a random password, which it writes to a file in `dir`. The server creates its initial
    /// role some seconds after its start.
    async fn create(stack: &Stack, dir: &Path) -> Result<Self> {
        let role = Self { name: dir.join("role"), password: dir.join("role-password") };
        let mut random = [0_u8; 16];
        fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let password = format!("{:032x}", u128::from_ne_bytes(random));
        fs::write(&role.name, ROLE)?;
        fs::write(&role.password, format!("{password}\n"))?;
        let statement = format!("CREATE ROLE IF NOT EXISTS {ROLE} WITH PASSWORD = '{password}' AND LOGIN = true");
        let (end, mut ticks) = (Instant::now() + PATIENCE, interval(Duration::from_millis(200)));
        loop {
            ticks.tick().await;
            let created = async { anyhow::Ok(session(stack).await?.query_unpaged(&*statement, ()).await?) };
            match created.await {
                Ok(_) => return Ok(role),
                Err(error) if Instant::now() >= end => return Err(error.context("no role was created")),
                Err(_) => {}
            }
        }
    }
}

/// Connects to the CQL server with its initial role.
async fn session(stack: &Stack) -> Result<Session> {
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(stack.secret("ca.pem"))? {
        authorities.add(certificate?)?;
    }
    let chain = CertificateDer::pem_file_iter(stack.secret("client.pem"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(stack.secret("client.key"))?;
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities)
        .with_client_auth_cert(chain, key)?;
    let (name, password) = (read(&stack.secret("cql-user"))?, read(&stack.secret("cql-password"))?);
    let builder = SessionBuilder::new().known_node(&stack.cql).user(name, password).tls_context(Some(Arc::new(tls)));
    Ok(builder.build().await?)
}

fn read(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    Ok(text.trim_end().to_owned())
}

/// Returns the variables with which services and the command connect to secured servers.
fn variables(stack: &Stack, role: &Role) -> Vec<(String, String)> {
    let plain = [("KAFKA__PROPERTIES__SECURITY__PROTOCOL", "sasl_ssl"), ("CQL__TLS", "true")];
    let mechanism = ("KAFKA__PROPERTIES__SASL__MECHANISM", "SCRAM-SHA-512");
    let files = [
        ("KAFKA__PROPERTIES__SSL__CA__LOCATION", "ca.pem"),
        ("KAFKA__PROPERTIES__SASL__USERNAME_FILE", "kafka-user"),
        ("KAFKA__PROPERTIES__SASL__PASSWORD_FILE", "kafka-password"),
        ("CQL__TLS_CA", "ca.pem"),
        ("CQL__TLS_CERTIFICATE", "client.pem"),
        ("CQL__TLS_KEY", "client.key"),
    ];
    let files = files.map(|(name, file)| (name, stack.secret(file)));
    let roles = [("CQL__USERNAME_FILE", role.name.clone()), ("CQL__PASSWORD_FILE", role.password.clone())];
    let files = files.into_iter().chain(roles).map(|(name, file)| (name, file.display().to_string()));
    let plain = plain.into_iter().chain([mechanism]).map(|(name, value)| (name, value.to_owned()));
    plain.chain(files).map(|(name, value)| (format!("ORBWEAVER_{name}"), value)).collect()
}

/// Returns the properties of a client that uses the same files.
fn properties(stack: &Stack) -> Result<Vec<(String, String)>> {
    let properties = [
        ("security.protocol", "sasl_ssl".to_owned()),
        ("sasl.mechanism", "SCRAM-SHA-512".to_owned()),
        ("ssl.ca.location", stack.secret("ca.pem").display().to_string()),
        ("sasl.username", read(&stack.secret("kafka-user"))?),
        ("sasl.password", read(&stack.secret("kafka-password"))?),
    ];
    Ok(properties.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

/// Returns the command with these variables and the inherited ones except `ORBWEAVER_*`.
fn orbweaver(arguments: &[&str], variables: &[(String, String)]) -> Result<Command> {
    command("orbweaver", arguments, variables)
}

fn command(program: &str, arguments: &[&str], variables: &[(String, String)]) -> Result<Command> {
    let mut command = Command::new(binary(program)?);
    let inherited = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("ORBWEAVER_"));
    command.env_clear().envs(inherited).envs(variables.iter().map(|(name, value)| (name, value))).args(arguments);
    Ok(command)
}

/// Collects all files below a directory.
fn files(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
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
    let dir = tempfile::tempdir()?;
    let stack = Stack::up(&dir.path().join("servers"), 29_192, &["--secured"])?;
    let role = Role::create(&stack, dir.path()).await?;
    let secured = variables(&stack, &role);
    let mut plan = Plan::on_servers(stack.brokers.clone(), stack.cql.clone(), 4);
    plan.variables.extend(secured.iter().cloned());
    plan.properties = properties(&stack)?;
    let mut cluster = Cluster::start(plan).await?;
    let config = WebConfig { pages: 200, bytes: 4_000, ..WebConfig::default() };
    let web = ToyWeb::start(config, &Serving { port: 0, logging: Logging::Count })?;
    let mut instances = cluster.add_all(PATIENCE).await?;

    let out = dir.path().join("out").display().to_string();
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
    ensure!(!bare.status.success(), "the brokers require no password");

    let servers = [("ORBWEAVER_KAFKA__BROKERS", &stack.brokers), ("ORBWEAVER_CQL__NODES", &stack.cql)];
    let servers = servers.map(|(name, value)| (name.to_owned(), value.clone()));
    let checked = command("orbweaver-fetcher", &["--check-config"], &[&secured[..], &servers].concat())?.output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    for shown in ["sasl.password", "ORBWEAVER_CQL__PASSWORD_FILE"] {
        ensure!(contains(&checked.stdout, shown), "{}", String::from_utf8_lossy(&checked.stdout));
    }

    let passwords = [read(&stack.secret("kafka-password"))?, read(&role.password)?];
    let clean = |bytes: &[u8]| passwords.iter().all(|password| !contains(bytes, password));
    let mut written = vec![];
    files(cluster.dir_of(1).parent().context("a directory of all")?, &mut written)?;
    files(Path::new(&out), &mut written)?;
    ensure!(written.len() > 10, "{written:?}");
    for path in written {
        ensure!(clean(&fs::read(&path)?), "a password is in {}", path.display());
    }
    let shown = [&status.stdout, &status.stderr, &bare.stdout, &bare.stderr, &checked.stdout, &checked.stderr];
    for text in arguments.iter().chain(shown) {
        ensure!(clean(text), "a password is in {}", String::from_utf8_lossy(text));
    }
    Ok(())
}
