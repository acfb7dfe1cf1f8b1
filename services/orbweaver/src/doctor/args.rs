//! Command line of `orbweaver doctor`.

use std::{env, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::Args;
use orbweaver_store::CqlConfig;

use crate::{
    cluster::{args::Cluster, connection},
    exit::Failure,
};

/// Allowed values of `--wait`.
const WAITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Variable with the name of a file that has the nodes of the store.
const NODES_FILE: &str = "ORBWEAVER_CQL__NODES_FILE";

/// Arguments of `orbweaver doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes nothing: no topic, keyspace, table or commit is created. Settings of the store other than these, such as the log-in
and TLS, come from the environment, as for services.

Exit codes: 0 nothing is bad (there may be warnings), 1 something is bad, 64 usage error.")]
pub struct DoctorArgs {
    /// Print JSON, one line per check: check, level, seen, advice.
    #[arg(long)]
    pub json: bool,
    /// Time between the two observations of the stages' progress, from 1s to 1h.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = wait)]
    pub wait: Duration,
    /// Nodes of the store: HOST:PORT[,HOST:PORT…]. Without them the store is not checked.
    #[arg(long, value_name = "NODES", env = "ORBWEAVER_CQL__NODES")]
    pub cql: Option<String>,
    /// Keyspace of the tables.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_CQL__KEYSPACE", default_value = "orbweaver")]
    pub keyspace: String,
    /// Directory of a service's state on this machine, to check the space of its disk.
    #[arg(long, value_name = "DIR", env = "ORBWEAVER_STATE__DIR")]
    pub state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl DoctorArgs {
    /// Returns the settings of the store; `None` if no nodes are given.
    pub(super) fn store(&self) -> Result<Option<CqlConfig>, Failure> {
        let nodes = self.cql.as_deref().filter(|nodes| !nodes.trim().is_empty());
        match nodes {
            None if env::var_os(NODES_FILE).is_none() => Ok(None),
            nodes => connection::cql_settings(nodes, &self.keyspace).map(Some),
        }
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    let time = crate::cli::duration(text)?;
    if WAITS.contains(&time) { Ok(time) } else { Err("expected a duration from 1s to 1h".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn a_wait_that_is_not_allowed_is_answered_with_the_value_and_what_is_allowed() {
        let doctor = |wait: &str| {
            let words = ["orbweaver", "doctor", "--brokers", "localhost:9", "--wait", wait];
            Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        for wait in ["1s", "5s", "2m", "1h"] {
            assert_eq!(doctor(wait), Ok(()));
        }
        for wait in ["0s", "999ms", "61m", "soon", "5"] {
            let error = doctor(wait).unwrap_err();
            assert!(error.contains(&format!("'{wait}'")) && error.contains("expected a duration"), "{error}");
        }
    }
}
