//! One process of a service.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, interval, timeout};

/// Polling interval.
const POLL: Duration = Duration::from_millis(20);
/// Time allowed for a process to bind its port.
const BINDS_WITHIN: Duration = Duration::from_secs(20);
/// Timeout per request to a process.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Number of log lines shown in errors.
const LAST_LINES: usize = 15;

/// Returns the path of a binary: in `ORBWEAVER_BIN_DIR`, by default next to this test in the target directory.
pub fn binary(name: &str) -> Result<PathBuf> {
    let dir = match std::env::var_os("ORBWEAVER_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let test = std::env::current_exe()?;
            test.parent().and_then(Path::parent).context("a test runs in the target directory")?.to_owned()
        }
    };
    let path = dir.join(name);
    let hint = "run `cargo build --workspace --bins` first, or set ORBWEAVER_BIN_DIR";
    ensure!(path.is_file(), "{} is not there: {hint}", path.display());
    Ok(path)
}

/// Response to a probe or to a request for metrics.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// A process of a service; killed on drop.
#[derive(Debug)]
pub struct Instance {
    name: &'static str,
    child: Child,
    log: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
}

impl Instance {
    /// Starts a binary with these variables and the inherited ones except `ORBWEAVER_*`, and returns once its port is
    /// bound.
    pub async fn start(binary: &Path, name: &'static str, variables: &[(String, String)], dir: &Path) -> Result<Self> {
        let log = dir.join("log");
        // Appended: a successor in the same directory continues the log, and its own part starts at the current end.
        let file = File::options().create(true).append(true).open(&log)?;
        let begin = file.metadata()?.len();
        let inherited = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("ORBWEAVER_"));
        let mut command = Command::new(binary);
        command.env_clear().envs(inherited).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("{}", binary.display()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut instance = Self { name, child, log, dir: dir.to_owned(), address };
        instance.address = instance.bound(begin).await?;
        Ok(instance)
    }

    /// Waits for the log line with the listening address.
    async fn bound(&mut self, begin: u64) -> Result<SocketAddr> {
        let end = Instant::now() + BINDS_WITHIN;
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            let text = std::fs::read(&self.log)?;
            let own = text.get(usize::try_from(begin)?..).unwrap_or_default();
            let mut lines =
                own.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            let said = lines.rfind(|line| line["message"] == "listening");
            if let Some(address) = said.and_then(|line| line["address"].as_str()?.parse().ok()) {
                return Ok(address);
            }
            self.still_runs()?;
            ensure!(Instant::now() < end, "{} did not bind its port:\n{}", self.name, self.last_words());
        }
    }

    /// Returns the service's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the directory of its state and log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns its process id; `None` once it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns its peak resident memory, in bytes; 0 once it has ended.
    #[must_use]
    pub fn peak_rss_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.id().unwrap_or_default());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default() * 1024
    }

    /// Requests a path on its port.
    pub async fn ask(&self, path: &str) -> Result<Answer> {
        let asked = async {
            let mut stream = TcpStream::connect(self.address).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
            anyhow::Ok(Answer { status, body: body.to_owned() })
        };
        timeout(ANSWERS_WITHIN, asked).await.with_context(|| format!("{} does not answer {path}", self.name))?
    }

    /// Waits until its readiness is `wanted`.
    ///
    /// # Errors
    /// When it takes longer, with the last response; when it ends.
    pub async fn readiness(&mut self, wanted: bool, within: Duration) -> Result<Answer> {
        let end = Instant::now() + within;
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            self.still_runs()?;
            let answer = self.ask("/readyz").await?;
            if (answer.status == 200) == wanted {
                return Ok(answer);
            }
            ensure!(
                Instant::now() < end,
                "{}: readiness is not {wanted} within {within:?}: {}\n{}",
                self.name,
                answer.body,
                self.last_words()
            );
        }
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self, within: Duration) -> Result<()> {
        self.readiness(true, within).await.map(drop)
    }

    /// Returns the sum of a metric over its labels; 0 if it is absent.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.ask("/metrics").await?.body;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            (rest.starts_with(' ') || rest.starts_with('{')).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
        });
        Ok(values.sum())
    }

    /// Returns the number of open partitions.
    pub async fn partitions_open(&self) -> Result<u32> {
        Ok(self.metric("orbweaver_stage_partitions_open").await? as u32)
    }

    /// Checks that it has not ended.
    ///
    /// # Errors
    /// When it has, with its last log lines.
    pub fn still_runs(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended by itself with {status}:\n{}", self.name, self.last_words());
        }
        Ok(())
    }

    /// Sends a signal: `Signal::STOP` suspends, `Signal::CONT` resumes, `Signal::TERM` stops gracefully.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.context("it has ended")?, signal).with_context(|| format!("{}: {signal:?}", self.name))
    }

    /// Kills it with SIGKILL, and waits until it has ended.
    pub async fn kill(mut self) -> Result<()> {
        self.still_runs()?;
        self.child.kill().await.context("kill -9")
    }

    /// Stops it with SIGTERM, and waits until it has ended.
    pub async fn terminate(mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.end(within).await
    }

    /// Waits until it ends by itself.
    pub async fn end(&mut self, within: Duration) -> Result<ExitStatus> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} did not end within {within:?}:\n{}", self.name, self.last_words()),
        }
    }

    /// Returns the last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
