//! A set of servers of one's own.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

/// How long the brokers of `tests/stack` wait for a silent member of a group: `group.consumer.session.timeout.ms` of
/// `tests/servers/kafka/server.properties`.
pub const SESSION: Duration = Duration::from_secs(6);

/// `tests/stack` could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// It could not be run.
    #[error("tests/stack: {0}")]
    Run(#[from] std::io::Error),
    /// It failed, and said why.
    #[error("tests/stack {verb}: {said}")]
    Failed {
        /// What it was told to do.
        verb: String,
        /// What it wrote to its standard error.
        said: String,
    },
}

/// Kafka and a CQL server that belong to one test, which may stop, kill and start them. They end when this is dropped, or
/// with the process of the test when that was killed.
#[derive(Debug)]
pub struct Stack {
    dir: PathBuf,
    /// `HOST:PORT[,HOST:PORT…]`; empty without Kafka.
    pub brokers: String,
    /// `HOST:PORT`; empty without a CQL server.
    pub cql: String,
}

impl Stack {
    /// Starts servers with their data in `dir`, which should be empty, at `port` and the nine ports above it. `options` are
    /// those of `tests/stack up`, such as `["--brokers", "3"]`.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn up(dir: &Path, port: u16, options: &[&str]) -> Result<Self, StackError> {
        let mut stack = Self { dir: dir.to_owned(), brokers: String::new(), cql: String::new() };
        let port = port.to_string();
        let output = stack.run("up", &[&["--port", &*port], options].concat())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let variable = |name: &str| {
            let line =
                said.lines().find_map(|line| line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().to_owned()
        };
        stack.brokers = variable("ORBWEAVER_TEST_BROKERS");
        stack.cql = variable("ORBWEAVER_TEST_CQL");
        Ok(stack)
    }

    /// Ends a node: `1`, `2`, `3` or `cql`, with the signal `TERM` or `KILL`. Its data stays.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn stop(&self, node: &str, signal: &str) -> Result<(), StackError> {
        self.run("stop", &[node, "--signal", signal]).map(drop)
    }

    /// Starts a node again on its data, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, node: &str) -> Result<(), StackError> {
        self.run("start", &[node]).map(drop)
    }

    /// A file of servers that were started with `--secured`: `ca.pem`, `client.pem`, `client.key`, or `USER` and `PASSWORD` of
    /// `kafka` and `cql`, such as `kafka-password`.
    #[must_use]
    pub fn secret(&self, name: &str) -> PathBuf {
        self.dir.join("secrets").join(name)
    }

    /// The process id of a node that runs.
    #[must_use]
    pub fn pid(&self, node: &str) -> Option<u32> {
        std::fs::read_to_string(self.dir.join(node).join("pid")).ok()?.trim().parse().ok()
    }

    fn run(&self, verb: &str, options: &[&str]) -> Result<Output, StackError> {
        let output = Command::new(script()?)
            // Or the servers that are shared would be taken for ours.
            .env_remove("ORBWEAVER_TEST_CQL")
            .env("ORBWEAVER_STACK_OWNER", std::process::id().to_string())
            .arg(verb)
            .args(options)
            .arg("--dir")
            .arg(&self.dir)
            .output()?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(StackError::Failed { verb: verb.to_owned(), said })
    }
}

/// `tests/stack` of the checkout that a test belongs to, or, for a program, of the folder that it was started in. The folder in
/// which this was compiled may be gone, since checkouts share what they build.
fn script() -> std::io::Result<PathBuf> {
    let from = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => PathBuf::from(package),
        None => std::env::current_dir()?,
    };
    let found = from.ancestors().map(|folder| folder.join("tests/stack")).find(|script| script.is_file());
    found.ok_or_else(|| std::io::Error::other(format!("not found in or above {}", from.display())))
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A server that does not end now ends with this process.
        let _ = self.run("down", &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_that_of_the_brokers() {
        let settings = include_str!("../../../tests/servers/kafka/server.properties");
        let told = settings.lines().find_map(|line| line.strip_prefix("group.consumer.session.timeout.ms="));
        assert_eq!(told.unwrap().parse(), Ok(SESSION.as_millis()));
    }
}
