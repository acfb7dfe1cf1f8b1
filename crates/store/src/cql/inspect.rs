//! Inspection of the servers for diagnoses. Only reads: unlike [`CqlStore::connect`](crate::CqlStore::connect), this
//! creates neither keyspace nor tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use orbweaver_messages::Millis;
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::serialize::row::SerializeRow;
use scylla::statement::{Consistency, Statement};
use scylla::value::CqlTimestamp;
use tokio::time::timeout;

use super::CqlConfig;
use super::failure::Failure;
use super::schema::{MIGRATIONS, checksum};
use super::session::{OPENING_TIMEOUT, builder};
use crate::StoreError;

/// Maximum number of nodes whose clocks are read.
const CLOCKS: usize = 32;

/// State of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub nodes: Vec<NodeSeen>,
    /// Whether all reachable nodes have the same schema, or why that could not be determined.
    pub schema_agrees: Result<bool, String>,
    /// The configured keyspace, if it exists, or why that could not be determined.
    pub keyspace: Result<Option<KeyspaceSeen>, String>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub address: String,
    pub datacenter: Option<String>,
    /// Whether this process is connected to the node.
    pub is_up: bool,
    /// Release and clock of a connected node, or the reason why they could not be read.
    pub clock: Option<Result<NodeClock, String>>,
}

/// Clock of a node, read between two readings of this machine's clock. In milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClock {
    pub release: String,
    pub before_ms: Millis,
    pub node_ms: Millis,
    pub after_ms: Millis,
}

impl NodeClock {
    /// Returns by how much the node's clock is ahead of this machine's; negative if it is behind, 0 if it is within the
    /// time of the request.
    #[must_use]
    pub fn ahead_ms(&self) -> Millis {
        let Self { before_ms, node_ms, after_ms, .. } = self;
        if node_ms < before_ms { node_ms.saturating_sub(*before_ms) } else { node_ms.saturating_sub(*after_ms).max(0) }
    }
}

/// The keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceSeen {
    /// Replicas by data center, or under `replication_factor`, as the servers report them, without the class.
    pub replication: BTreeMap<String, String>,
    /// The migrations that this version or the keyspace has, by number.
    pub migrations: Vec<MigrationSeen>,
}

/// A migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSeen {
    pub number: i32,
    /// Name; empty for one that this version does not know.
    pub name: &'static str,
    pub state: MigrationState,
}

/// State of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationState {
    Applied,
    /// Services of this version apply it when they start.
    Missing,
    /// Another content was applied under this number: services of this version do not start.
    Changed,
    /// A newer version applied it.
    Newer,
}

/// Inspects the servers. `now` is the clock of this machine. Waits for unavailable servers for a bounded time.
///
/// # Errors
/// Returns an error if no session can be opened.
pub async fn inspect(config: &CqlConfig, now: impl Fn() -> Millis) -> Result<Inspection, StoreError> {
    let doing = format!("opening a session with {}", config.nodes.join(", "));
    let late = || Failure::timeout(format!("no answer within {} s", OPENING_TIMEOUT.as_secs()));
    let opened = timeout(OPENING_TIMEOUT, builder(config).map_err(StoreError::Refused)?.build()).await;
    let session = opened.map_err(|_| late()).and_then(|session| session.map_err(Failure::from));
    let session = session.map_err(|failure| failure.while_doing(&doing))?;
    let (mut nodes, mut room) = (vec![], CLOCKS);
    for node in session.get_cluster_state().get_nodes_info() {
        let (is_up, address) = (node.is_connected(), node.address.to_string());
        let clock = if is_up && room > 0 {
            room -= 1;
            Some(clock(&session, node, &now).await)
        } else {
            None
        };
        nodes.push(NodeSeen { address, datacenter: node.datacenter.clone(), is_up, clock });
    }
    nodes.sort_by(|one, other| one.address.cmp(&other.address));
    let agreement = session.check_schema_agreement().await;
    Ok(Inspection {
        nodes,
        schema_agrees: agreement.map(|version| version.is_some()).map_err(|error| error.to_string()),
        keyspace: keyspace(&session, &config.keyspace).await,
    })
}

async fn clock(session: &Session, node: &Arc<Node>, now: impl Fn() -> Millis) -> Result<NodeClock, String> {
    let mut statement = Statement::new("SELECT release_version, toTimestamp(now()) FROM system.local");
    let node = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
    statement.set_load_balancing_policy(Some(node));
    statement.set_consistency(Consistency::One);
    let before_ms = now();
    let rows: Vec<(String, CqlTimestamp)> = rows(session, statement, ()).await?;
    let after_ms = now();
    let (release, CqlTimestamp(node_ms)) = rows.into_iter().next().ok_or("it reported no clock")?;
    Ok(NodeClock { release, before_ms, node_ms, after_ms })
}

async fn keyspace(session: &Session, name: &str) -> Result<Option<KeyspaceSeen>, String> {
    let query = |text: &str| {
        let mut statement = Statement::new(text);
        statement.set_consistency(Consistency::One);
        statement
    };
    let replication = query("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?");
    let found: Vec<(BTreeMap<String, String>,)> = rows(session, replication, (name,)).await?;
    let Some((mut replication,)) = found.into_iter().next() else { return Ok(None) };
    replication.remove("class");
    let table = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'migrations'";
    let table: Vec<(String,)> = rows(session, query(table), (name,)).await?;
    let recorded = if table.is_empty() {
        vec![]
    } else {
        rows(session, query(&format!("SELECT number, checksum FROM \"{name}\".migrations")), ()).await?
    };
    Ok(Some(KeyspaceSeen { replication, migrations: migrations(&recorded) }))
}

async fn rows<R>(session: &Session, statement: Statement, values: impl SerializeRow) -> Result<Vec<R>, String>
where
    R: for<'a> DeserializeRow<'a, 'a>,
{
    let answer = session.query_unpaged(statement, values).await.map_err(|error| error.to_string())?;
    let rows = answer.into_rows_result().map_err(|error| error.to_string())?;
    let rows = rows.rows::<R>().map_err(|error| error.to_string())?;
    rows.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Compares the migrations of the keyspace, as numbers and checksums, with those of this version. Pure.
fn migrations(recorded: &[(i32, String)]) -> Vec<MigrationSeen> {
    let known = MIGRATIONS.iter().map(|migration| {
        let state = match recorded.iter().find(|(number, _)| *number == migration.number) {
            Some((_, recorded)) if *recorded == checksum(migration.text) => MigrationState::Applied,
            Some(_) => MigrationState::Changed,
            None => MigrationState::Missing,
        };
        MigrationSeen { number: migration.number, name: migration.name, state }
    });
    let is_newer = |number: i32| MIGRATIONS.iter().all(|known| known.number != number);
    let newer = recorded.iter().filter(|(number, _)| is_newer(*number));
    let newer = newer.map(|(number, _)| MigrationSeen { number: *number, name: "", state: MigrationState::Newer });
    let mut all: Vec<MigrationSeen> = known.chain(newer).collect();
    all.sort_by_key(|migration| migration.number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_is_applied_missing_changed_or_newer() {
        let [first, second, ..] = &MIGRATIONS;
        let newest = i32::try_from(MIGRATIONS.len()).unwrap() + 1;
        let recorded =
            [(newest, "0".to_owned()), (first.number, checksum(first.text)), (second.number, "0".to_owned())];
        let found = migrations(&recorded);
        let states: Vec<_> = found.iter().map(|seen| seen.state).collect();
        assert_eq!(found.len(), MIGRATIONS.len() + 1);
        assert_eq!(states[..3], [MigrationState::Applied, MigrationState::Changed, MigrationState::Missing]);
        assert_eq!(found.last().map(|seen| (seen.number, seen.state)), Some((newest, MigrationState::Newer)));
        assert!(migrations(&[]).iter().all(|seen| seen.state == MigrationState::Missing));
    }

    #[test]
    fn a_clock_differs_by_what_the_time_of_the_request_does_not_explain() {
        let ahead =
            |node_ms| NodeClock { release: String::new(), before_ms: 1_000, node_ms, after_ms: 1_200 }.ahead_ms();
        assert_eq!([900, 1_000, 1_100, 1_200, 1_500].map(ahead), [-100, 0, 0, 0, 300]);
    }
}
