//! `orbweaver doctor`: checks everything that a cluster needs, and names remedies.
//!
//! ```text
//! gather: brokers, store, disk ── observations ──> checks (pure) ── findings ──> one line per check
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the command line |
//! | [`finding`] | findings: check, level, observation, advice |
//! | [`brokers`], [`topics`], [`instances`], [`progress`], [`crawls`], [`store`], [`disk`] | the checks; pure |
//! | `gather`, `readings` | observations of brokers and store, each with a bounded wait |
//!
//! An observation that fails is a finding, and does not end the command. Nothing is written: neither topics, keyspaces,
//! tables nor commits are created.

pub mod args;
pub mod brokers;
pub mod crawls;
pub mod disk;
pub mod finding;
mod gather;
pub mod instances;
pub mod progress;
mod readings;
pub mod store;
pub mod topics;

use orbweaver_process::{GIT, VERSION, disk_space};

use args::DoctorArgs;
use finding::{Finding, Level, count};

use crate::{
    cluster::connection::{self, block_on},
    exit::Failure,
    logging,
    output::{json_line, to_stdout},
};

/// Runs `orbweaver doctor`.
///
/// # Errors
/// Fails if an option is wrong, or a check has found something bad.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    logging::to_stderr_on_request()?;
    let (kafka, store) = (connection::config(&args.cluster.brokers, &args.cluster.kafka)?, args.store()?);
    let mut report = Report { json: args.json, bad: 0, warned: 0 };
    report.add(&[Finding::ok("version", version(GIT))])?;
    block_on(async {
        Box::pin(gather::brokers(kafka, args.wait, &mut report)).await?;
        report.add(&Box::pin(gather::store(store)).await)
    })?;
    if let Some(directory) = &args.state_dir {
        report.add(&[disk::disk(directory, disk_space(directory))])?;
    }
    report.end()
}

/// Returns the version of this command; a build outside of a repository has no commit.
fn version(commit: &str) -> String {
    if commit == "unknown" { format!("orbweaver {VERSION}") } else { format!("orbweaver {VERSION} ({commit})") }
}

/// Prints findings as they come, and counts them.
struct Report {
    json: bool,
    bad: u64,
    warned: u64,
}

impl Report {
    fn add(&mut self, findings: &[Finding]) -> Result<(), Failure> {
        let number = |level| findings.iter().filter(|finding| finding.level == level).count() as u64;
        self.bad += number(Level::Bad);
        self.warned += number(Level::Warn);
        to_stdout(|out| {
            findings.iter().try_for_each(|finding| {
                if self.json { json_line(out, finding) } else { writeln!(out, "{}", finding.text()) }
            })
        })
    }

    /// Returns the result of the command.
    fn end(&self) -> Result<(), Failure> {
        let warned = match self.warned {
            0 => String::new(),
            warned => format!(", and {}", count(warned, "warning")),
        };
        match self.bad {
            0 => Ok(()),
            1 => Err(Failure::Found(format!("1 check found something bad{warned}"))),
            bad => Err(Failure::Found(format!("{bad} checks found something bad{warned}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_end_with_0_and_anything_bad_with_1() {
        let end = |bad, warned| {
            Report { json: false, bad, warned }.end().map_err(|failure| (failure.code(), failure.to_string()))
        };
        assert_eq!((end(0, 0), end(0, 3)), (Ok(()), Ok(())));
        assert_eq!(end(1, 0), Err((1, "1 check found something bad".to_owned())));
        assert_eq!(end(2, 1), Err((1, "2 checks found something bad, and 1 warning".to_owned())));
    }
}
