//! Private set of servers.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

/// Session timeout of consumer groups on the brokers of `tests/stack`: `group.consumer.session.timeout.ms` of
/// `tests/servers/kafka/server.properties`.
pub const SESSION: Duration = Duration::from_secs(6);

/// Failure of `tests/stack`.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The command could not be run.
    #[error("tests/stack: {0}")]
    Run(#[from] std::io::Error),
    /// The command failed.
    #[error("tests/stack {verb}: {said}")]
    Failed {
        /// Subcommand.
        verb: String,
        /// Standard error of the command.
        said: String,
    },
}

/// Kafka and a CQL server owned by one test, which may stop, kill and start them. They end when this is dropped, or
/// with the process of the test if that is killed.
#[derive(Debug)]
pub struct Stack {
    dir: PathBuf,
    /// `HOST:PORT[,HOST:PORT…]`; empty without Kafka.
    pub brokers: String,
    /// `HOST:PORT`; empty without a CQL server.
    pub cql: String,
}

impl Stack {
    /// Starts servers with their data in `dir`, which should be empty, on `port` and the nine ports above it. `options`
    /// are those of `tests/stack up`, such as `["--brokers", "3"]`.
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

    /// Stops a node (`1`, `2`, `3` or `cql`) with the signal `TERM` or `KILL`. Its data is kept.
    pub fn stop(&self, node: &str, signal: &str) -> Result<(), StackError> {
        self.run("stop", &[node, "--signal", signal]).map(drop)
    }

    /// Restarts a node on its data, and waits until it is ready.
    pub fn start(&self, node: &str) -> Result<(), StackError> {
        self.run("start", &[node]).map(drop)
    }

    /// Returns a file of servers that were started with `--secured`: `ca.pem`, `client.pem`, `client.key`, or `USER`
    /// and `PASSWORD` of `kafka` and `cql`, such as `kafka-password`.
    #[must_use]
    pub fn secret(&self, name: &str) -> PathBuf {
        self.dir.join("secrets").join(name)
    }

    /// Returns the process id of a running node.
    #[must_use]
    pub fn pid(&self, node: &str) -> Option<u32> {
        std::fs::read_to_string(self.dir.join(node).join("pid")).ok()?.trim().parse().ok()
    }

    fn run(&self, verb: &str, options: &[&str]) -> Result<Output, StackError> {
        let output = Command::new(script()?)
            // Otherwise the shared servers would be mistaken for those of this stack.
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

/// Returns `tests/stack` of the checkout that a test belongs to or, for a program, of its working directory. The
/// directory in which this was compiled may no longer exist, since checkouts share build output.
fn script() -> std::io::Result<PathBuf> {
    let from = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => PathBuf::from(package),
        None => std::env::current_dir()?,
    };
    let found = from.ancestors().map(|dir| dir.join("tests/stack")).find(|script| script.is_file());
    found.ok_or_else(|| std::io::Error::other(format!("not found in or above {}", from.display())))
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A server that does not stop now ends with this process.
        let _ = self.run("down", &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_that_of_the_brokers() {
        let settings = include_str!("../../../tests/servers/kafka/server.properties");
        let reported = settings.lines().find_map(|line| line.strip_prefix("group.consumer.session.timeout.ms="));
        assert_eq!(reported.unwrap().parse(), Ok(SESSION.as_millis()));
    }
}
