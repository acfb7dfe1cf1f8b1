//! The tables: which migrations a keyspace has, and applying those that it lacks.
//!
//! Several processes may do this at once. Each statement bears being run twice, and all processes send them to the same
//! node (the one with the lowest id that is connected): Cassandra 5 gives a table that is created at two nodes at once two
//! identities, which no `IF NOT EXISTS` prevents. A migration is recorded when the nodes agree on the schema.

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

/// A migration: its number, its name and its statements.
struct Migration {
    number: i32,
    name: &'static str,
    text: &'static str,
}

/// All migrations, in order. One that was released is never changed.
const MIGRATIONS: [Migration; 1] =
    [Migration { number: 1, name: "pages", text: include_str!("../../../../schemas/cql/0001-pages.cql") }];

/// A statement that the server does not understand is tried again so often (a second was too short on a busy machine),
const AGAIN: usize = 50;
/// after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Makes keyspace and tables where they are missing.
///
/// # Errors
/// When a migration was changed after it was applied, rights are missing, or the servers are away.
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
        tracing::warn!(keyspace = config.keyspace, number, "a newer program has migrated the keyspace");
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
        "migration {number} `{name}` is not the one that keyspace `{keyspace}` has (checksum {checksum}, there {recorded}): \
         use the program that made the keyspace, or another keyspace; what is to change belongs into a new migration"
    )))
}

/// The statements of a migration, without comments and with single spaces.
fn statements(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let statements = code.split(';').map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter(|statement| !statement.is_empty()).collect()
}

fn checksum(text: &str) -> String {
    format!("{:032x}", xxh3_128(statements(text).join(";").as_bytes()))
}

/// Sends all to one node, the same in every process that sees the same nodes.
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
        let mut waits = AGAIN;
        loop {
            let failure = match self.session.query_unpaged(statement.clone(), &values).await {
                Ok(answer) => return Ok(answer),
                Err(error) => Failure::from(error),
            };
            if failure.kind != Kind::Invalid || waits == 0 {
                return Err(failure.while_doing(doing));
            }
            // What another process is making now stands in `system_schema` a moment before the server knows it.
            waits -= 1;
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Whether a query finds anything.
    async fn finds(&self, doing: &str, text: &str, values: impl SerializeRow) -> Result<bool, StoreError> {
        let rows = self.run(doing, text, values).await?.into_rows_result();
        Ok(rows.map_err(|error| StoreError::Failed(format!("{doing}: {error}")))?.rows_num() > 0)
    }

    /// Makes the keyspace. One that is there needs no right to make keyspaces, and may have been made with other copies.
    async fn keyspace(&self) -> Result<(), StoreError> {
        let CqlConfig { keyspace, replication_factor, datacenter, .. } = self.config;
        let doing = format!("making keyspace `{keyspace}`");
        let query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
        if self.finds(&doing, query, (keyspace,)).await? {
            return Ok(());
        }
        // Not SimpleStrategy: it knows no racks, and ScyllaDB has deprecated it. Without a name all data centres that the
        // cluster has now get as many copies.
        let place = datacenter.as_deref().unwrap_or("replication_factor");
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" \
             WITH replication = {{'class': 'NetworkTopologyStrategy', '{place}': {replication_factor}}}"
        );
        self.run(&doing, &create, ()).await?;
        tracing::info!(keyspace, replication_factor, "the keyspace was made");
        Ok(())
    }

    /// Numbers and checksums of the migrations that the keyspace has.
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
    fn every_migration_of_the_folder_is_known() {
        let folder = "../../schemas/cql";
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<_> = files.filter(|name| name.ends_with(".cql")).collect();
        files.sort();
        assert_eq!(files, MIGRATIONS.map(|known| format!("{:04}-{}.cql", known.number, known.name)));
    }

    #[test]
    fn a_changed_migration_says_which_and_what_to_do() {
        let error = unchanged(&MIGRATIONS[0], "0", "crawl").unwrap_err().to_string();
        for part in ["migration 1 `pages`", "keyspace `crawl`", "there 0", "a new migration"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(unchanged(&MIGRATIONS[0], &checksum(MIGRATIONS[0].text), "crawl").is_ok());
    }
}
