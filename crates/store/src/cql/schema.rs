//! Schema migrations: finds those that a keyspace has, and applies the missing ones.
//!
//! Several processes may do this at once. Each statement may run twice, and all processes send them to the same node
//! (the connected one with the lowest id): Cassandra 5 gives a table that is created at two nodes at once two
//! identities, which `IF NOT EXISTS` does not prevent. A migration is recorded once the nodes agree on the schema.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::policies::load_balancing::{LoadBalancingPolicy, NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_128;

use super::CqlConfig;
use super::failure::{Failure, Kind};
use crate::StoreError;

/// Migration: number, name and statements.
pub(super) struct Migration {
    pub(super) number: i32,
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// All migrations, in order. A released one is never changed.
pub(super) const MIGRATIONS: [Migration; 3] = [
    Migration { number: 1, name: "pages", text: include_str!("../../../../schemas/cql/0001-pages.cql") },
    Migration { number: 2, name: "captures", text: include_str!("../../../../schemas/cql/0002-captures.cql") },
    Migration { number: 3, name: "site-pages", text: include_str!("../../../../schemas/cql/0003-site-pages.cql") },
];

/// Maximum number of retries of a statement that the server rejects as invalid (one second in total was too short on a
/// busy machine).
const RETRIES: usize = 50;
/// Wait before each of these retries.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Creates keyspace and tables if they are missing.
pub(super) async fn migrate(session: &Session, config: &CqlConfig) -> Result<(), StoreError> {
    let schema = Schema { session, config, node: one_node(session) };
    schema.keyspace().await?;
    let recorded = schema.recorded().await?;
    for migration in &MIGRATIONS {
        match recorded.iter().find(|(number, _)| *number == migration.number) {
            Some((_, checksum)) => unchanged(migration, checksum, &config.keyspace)?,
            None => schema.apply(migration).await?,
        }
    }
    if let Some((number, _)) =
        recorded.iter().find(|(number, _)| MIGRATIONS.iter().all(|known| known.number != *number))
    {
        tracing::warn!(keyspace = config.keyspace, number, "the keyspace was migrated by a newer version");
    }
    Ok(())
}

fn unchanged(migration: &Migration, recorded: &str, keyspace: &str) -> Result<(), StoreError> {
    let checksum = checksum(migration.text);
    if recorded == checksum {
        return Ok(());
    }
    let Migration { number, name, .. } = migration;
    Err(StoreError::Refused(format!(
        "migration {number} `{name}` differs from the one that was applied to keyspace `{keyspace}` (checksum {checksum}, \
         applied {recorded}): use the version that created the keyspace, or another keyspace; put changes into a new \
         migration"
    )))
}

/// Returns the statements of a migration, without comments and with single spaces.
fn statements(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let statements = code.split(';').map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter(|statement| !statement.is_empty()).collect()
}

pub(super) fn checksum(text: &str) -> String {
    format!("{:032x}", xxh3_128(statements(text).join(";").as_bytes()))
}

/// Returns a policy that sends all requests to one node, the same in every process that sees the same nodes.
fn one_node(session: &Session) -> Option<Arc<dyn LoadBalancingPolicy>> {
    let state = session.get_cluster_state();
    let connected = state.get_nodes_info().iter().filter(|node| node.is_connected());
    let node = connected.min_by_key(|node| node.host_id)?;
    Some(SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None))
}

struct Schema<'a> {
    session: &'a Session,
    config: &'a CqlConfig,
    node: Option<Arc<dyn LoadBalancingPolicy>>,
}

impl Schema<'_> {
    async fn run(&self, doing: &str, text: &str, values: impl SerializeRow) -> Result<QueryResult, StoreError> {
        let mut statement = Statement::new(text);
        statement.set_load_balancing_policy(self.node.clone());
        statement.set_is_idempotent(true);
        let mut waits = RETRIES;
        loop {
            let failure = match self.session.query_unpaged(statement.clone(), &values).await {
                Ok(answer) => return Ok(answer),
                Err(error) => Failure::from(error),
            };
            if failure.kind != Kind::Invalid || waits == 0 {
                return Err(failure.while_doing(doing));
            }
            // An object that another process is creating is visible in `system_schema` shortly before the server can
            // use it.
            waits -= 1;
            sleep(RETRY_DELAY).await;
        }
    }

    /// Returns `true` if a query finds any row.
    async fn finds(&self, doing: &str, text: &str, values: impl SerializeRow) -> Result<bool, StoreError> {
        let rows = self.run(doing, text, values).await?.into_rows_result();
        Ok(rows.map_err(|error| StoreError::Failed(format!("{doing}: {error}")))?.rows_num() > 0)
    }

    /// Creates the keyspace if it is missing. An existing one requires no permission to create keyspaces, and may have
    /// different replication settings.
    async fn keyspace(&self) -> Result<(), StoreError> {
        let CqlConfig { keyspace, replication_factor, datacenter, .. } = self.config;
        let doing = format!("creating keyspace `{keyspace}`");
        let query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
        if self.finds(&doing, query, (keyspace,)).await? {
            return Ok(());
        }
        // Not SimpleStrategy: it ignores racks, and ScyllaDB has deprecated it. Without a name, all current data
        // centers of the cluster get the same number of replicas.
        let place = datacenter.as_deref().unwrap_or("replication_factor");
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" \
             WITH replication = {{'class': 'NetworkTopologyStrategy', '{place}': {replication_factor}}}"
        );
        self.run(&doing, &create, ()).await?;
        tracing::info!(keyspace, replication_factor, "the keyspace was created");
        Ok(())
    }

    /// Returns numbers and checksums of the migrations that the keyspace has.
    async fn recorded(&self) -> Result<Vec<(i32, String)>, StoreError> {
        let keyspace = &self.config.keyspace;
        let doing = format!("reading the migrations of keyspace `{keyspace}`");
        let query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'migrations'";
        if !self.finds(&doing, query, (keyspace,)).await? {
            let create = format!(
                "CREATE TABLE IF NOT EXISTS \"{keyspace}\".migrations \
                 (number int PRIMARY KEY, name text, checksum text, applied_at timestamp)"
            );
            self.run(&doing, &create, ()).await?;
        }
        let query = format!("SELECT number, checksum FROM \"{keyspace}\".migrations");
        let rows = self.run(&doing, &query, ()).await?.into_rows_result();
        let unreadable = |error: &dyn std::fmt::Display| StoreError::Refused(format!("{doing}: {error}"));
        let rows = rows.map_err(|error| unreadable(&error))?;
        let rows = rows.rows::<(i32, String)>().map_err(|error| unreadable(&error))?;
        rows.collect::<Result<_, _>>().map_err(|error| unreadable(&error))
    }

    async fn apply(&self, migration: &Migration) -> Result<(), StoreError> {
        let (Migration { number, name, text }, keyspace) = (migration, &self.config.keyspace);
        let doing = format!("applying migration {number} `{name}` to keyspace `{keyspace}`");
        for statement in statements(text) {
            let statement = statement.replace("orbweaver.", &format!("\"{keyspace}\"."));
            self.run(&doing, &statement, ()).await?;
        }
        let agreed = self.session.await_schema_agreement().await;
        agreed.map_err(|error| Failure::from(error).while_doing(&doing))?;
        let insert = format!(
            "INSERT INTO \"{keyspace}\".migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, toTimestamp(now()))"
        );
        self.run(&doing, &insert, (number, name, checksum(text))).await?;
        tracing::info!(keyspace, number, name, "a migration was applied");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_and_comments_and_spaces_do_not_count() {
        let text = "-- A; comment.\nCREATE TABLE a (\n  b int -- the b\n);\n\nCREATE TABLE c (d int);\n";
        assert_eq!(statements(text), ["CREATE TABLE a ( b int )", "CREATE TABLE c (d int)"]);
        assert_eq!(checksum(text), checksum("CREATE TABLE a ( b int );CREATE TABLE c (d int)"));
        assert_ne!(checksum(text), checksum("CREATE TABLE a ( b int );CREATE TABLE c (e int)"));
    }

    #[test]
    fn the_migrations_are_numbered_without_gaps_and_bear_being_run_twice() {
        for (place, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.number), Ok(place + 1));
            for statement in statements(migration.text) {
                assert!(statement.contains(" IF NOT EXISTS orbweaver."), "{statement}");
            }
        }
    }

    #[test]
    fn every_migration_of_the_directory_is_known() {
        let dir = "../../schemas/cql";
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.filter(|name| name.ends_with(".cql")).collect();
        files.sort();
        assert_eq!(files, MIGRATIONS.map(|known| format!("{:04}-{}.cql", known.number, known.name)));
    }

    #[test]
    fn a_changed_migration_says_which_and_what_to_do() {
        let error = unchanged(&MIGRATIONS[0], "0", "crawl").unwrap_err().to_string();
        for part in ["migration 1 `pages`", "keyspace `crawl`", "applied 0", "a new migration"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(unchanged(&MIGRATIONS[0], &checksum(MIGRATIONS[0].text), "crawl").is_ok());
    }
}
