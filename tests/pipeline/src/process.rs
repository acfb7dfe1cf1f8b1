//! The real command as a process.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, interval, timeout};

/// Polling interval.
const POLL: Duration = Duration::from_millis(2);

/// Waits until `state` holds, for `within` at most.
///
/// # Errors
/// When the time is over, naming the awaited state.
pub async fn until(what: &str, within: Duration, mut state: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + within;
    let mut ticks = interval(POLL);
    while !state()? {
        ensure!(Instant::now() < end, "not within {within:?}: {what}");
        ticks.tick().await;
    }
    Ok(())
}

/// Returns the path of the binary: `ORBWEAVER_BIN`, by default next to this test in the target directory.
fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ORBWEAVER_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).context("a test runs in the target directory")?;
    let path = profile.join("orbweaver");
    ensure!(
        path.is_file(),
        "{} is not there: run `cargo build -p orbweaver` first, or set ORBWEAVER_BIN",
        path.display()
    );
    Ok(path)
}

/// A command line of `orbweaver`.
#[derive(Debug)]
pub struct Orbweaver(Command);

impl Orbweaver {
    /// Creates a command line of `orbweaver` with arguments.
    pub fn new<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        Ok(Self(command))
    }

    /// Creates `orbweaver crawl START --out OUT` for a web on loopback, without a rate limit, with further options
    /// split at spaces.
    pub fn crawl(start: &str, out: &Path, options: &str) -> Result<Self> {
        let defaults = ["--rate unlimited", "--scope any"].into_iter();
        let defaults = defaults.filter(|option| !options.contains(&option[..option.find(' ').unwrap_or(0)]));
        let words = defaults.chain([options]).flat_map(str::split_whitespace).map(OsStr::new);
        let base = ["crawl", start, "--allow-private", "--out"].into_iter().map(OsStr::new);
        Self::new(base.chain([out.as_os_str()]).chain(words))
    }

    /// Adds an argument, without splitting.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.0.stdin(file);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn within(mut self, dir: &Path) -> Self {
        self.0.current_dir(dir);
        self
    }

    /// Starts the command.
    pub fn start(mut self) -> Result<Running> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        self.0.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let child = self.0.spawn().with_context(|| format!("cannot start {:?}", self.0.as_std()))?;
        Ok(Running { child, stdout, stderr })
    }

    /// Runs the command to its end.
    pub async fn end(self, within: Duration) -> Result<Ended> {
        self.start()?.end(within).await
    }
}

/// A running process; killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Content of stdout.
    pub stdout: String,
    /// Content of stderr.
    pub stderr: String,
}

impl Running {
    /// Returns `true` if it has not ended.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end within the time; it is then killed.
    pub async fn end(mut self, within: Duration) -> Result<Ended> {
        let Ok(status) = timeout(within, self.child.wait()).await else {
            self.child.kill().await?;
            bail!("it did not end within {within:?}; stderr:\n{}", text(&mut self.stderr)?);
        };
        Ok(Ended { code: status?.code(), stdout: text(&mut self.stdout)?, stderr: text(&mut self.stderr)? })
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.context("it has ended")?, Signal::INT).context("SIGINT")
    }

    /// Kills it with SIGKILL, and waits until it has ended.
    ///
    /// # Errors
    /// When it had ended by itself, with its stderr.
    pub async fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("it had ended by itself with {status}; stderr:\n{}", text(&mut self.stderr)?);
        }
        self.child.kill().await.context("kill -9")
    }
}

impl Ended {
    /// Checks the exit code, that stderr contains each of `words`, and that it did not panic.
    ///
    /// # Errors
    /// When a check fails, with its output.
    pub fn expect(&self, code: i32, words: &[&str]) -> Result<()> {
        ensure!(
            self.code == Some(code),
            "exit code {:?}, not {code}; it said:\n{}{}",
            self.code,
            self.stdout,
            self.stderr
        );
        for word in words {
            ensure!(self.stderr.contains(word), "stderr does not name `{word}`:\n{}", self.stderr);
        }
        ensure!(!self.stderr.contains("panicked"), "it panicked:\n{}", self.stderr);
        Ok(())
    }
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
