//! Check of the CQL store (pure).

use orbweaver_messages::CLOCK_MARGIN_MS;
use orbweaver_store::{Inspection, KeyspaceSeen, MigrationState, NodeSeen};

use super::finding::{Finding, count, listed};

/// Returns the findings about the servers. `name` is the configured keyspace.
#[must_use]
pub fn store(name: &str, seen: &Inspection) -> Vec<Finding> {
    let mut found = vec![nodes(&seen.nodes)];
    found.extend(clocks(&seen.nodes));
    found.push(match &seen.schema_agrees {
        Ok(true) => Finding::ok("store schema", "all reachable nodes agree"),
        Ok(false) => Finding::warn(
            "store schema",
            "the nodes have different versions of the schema",
            "wait some seconds and repeat; if it persists, `nodetool describecluster` names the nodes: restart those that differ",
        ),
        Err(error) => Finding::bad("store schema", error, "check the logs of the nodes"),
    });
    match &seen.keyspace {
        Ok(None) => found.push(Finding::warn(
            "store keyspace",
            format!("the keyspace `{name}` does not exist"),
            "a service that uses the store creates it at its start (`cql.replication_factor`); check `cql.keyspace` if services have run",
        )),
        Ok(Some(keyspace)) => {
            found.push(replication(name, keyspace, &seen.nodes));
            found.extend(migrations(name, keyspace));
        }
        Err(error) => found.push(Finding::bad(
            "store keyspace",
            format!("the keyspace `{name}` cannot be read: {error}"),
            "check the nodes that are down, and the permissions of `cql.username`",
        )),
    }
    found
}

fn nodes(nodes: &[NodeSeen]) -> Finding {
    let down: Vec<&str> = nodes.iter().filter(|node| !node.is_up).map(|node| node.address.as_str()).collect();
    let up = nodes.len() - down.len();
    let mut releases: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node.clock.as_ref()?.as_ref().ok())
        .map(|clock| clock.release.as_str())
        .collect();
    releases.sort_unstable();
    releases.dedup();
    let release = if releases.is_empty() { String::new() } else { format!(", version {}", releases.join(" and ")) };
    let seen = format!("{up} of {} up{release}", count(nodes.len() as u64, "node"));
    if down.is_empty() && up > 0 {
        Finding::ok("store nodes", seen)
    } else {
        let advice = "start the missing nodes; `nodetool status` shows their state. Writes that need them wait";
        Finding::warn("store nodes", format!("{seen}; down: {}", listed(&down)), advice)
    }
}

fn clocks(nodes: &[NodeSeen]) -> Vec<Finding> {
    let read = |node: &NodeSeen| Some((node.address.clone(), node.clock.clone()?));
    let clocks: Vec<_> = nodes.iter().filter_map(read).collect();
    let unread = clocks.iter().filter_map(|(address, clock)| Some((address, clock.as_ref().err()?)));
    let mut found: Vec<Finding> = unread
        .map(|(address, error)| {
            Finding::bad("store node", format!("{address} does not answer: {error}"), "check the log of the node")
        })
        .collect();
    let ahead = clocks.iter().filter_map(|(address, clock)| Some((address, clock.as_ref().ok()?.ahead_ms())));
    let Some((address, ahead)) = ahead.max_by_key(|(_, ahead)| ahead.unsigned_abs()) else { return found };
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    let seen = format!("{address} is {} ms {side} this machine", ahead.unsigned_abs());
    found.push(match ahead.unsigned_abs() {
        0 => Finding::ok("store clocks", "those of the nodes and of this machine agree"),
        1..=MARGIN_MS => Finding::ok("store clocks", seen),
        _ => Finding::warn(
            "store clocks",
            seen,
            "synchronize the clocks of all machines (chrony, ntpd): services refuse to start with a clock that differs from others'",
        ),
    });
    found
}

/// Largest difference between clocks that is no warning, in milliseconds.
const MARGIN_MS: u64 = CLOCK_MARGIN_MS.unsigned_abs();

fn replication(name: &str, keyspace: &KeyspaceSeen, nodes: &[NodeSeen]) -> Finding {
    const CHECK: &str = "store replication";
    let shown: Vec<String> = keyspace.replication.iter().map(|(of, factor)| format!("{of}: {factor}")).collect();
    let shown = format!("`{name}` has {}", listed(&shown));
    let alter = format!("ALTER KEYSPACE {name} with more replicas, then `nodetool repair` on each node");
    let mut worst = Finding::ok(CHECK, &shown);
    for (of, factor) in &keyspace.replication {
        // `3/1` has one transient replica.
        let Some(factor) = factor.split('/').next().and_then(|factor| factor.parse::<usize>().ok()) else { continue };
        let is_of = |node: &&NodeSeen| of == "replication_factor" || node.datacenter.as_deref() == Some(of);
        let (all, up) =
            (nodes.iter().filter(is_of).count(), nodes.iter().filter(is_of).filter(|node| node.is_up).count());
        let majority = factor / 2 + 1;
        let finding = if factor == 0 {
            continue;
        } else if up < majority {
            Finding::bad(
                CHECK,
                format!(
                    "{shown}, but {} of {} up: writes at `local_quorum` need {majority}",
                    up,
                    count(all as u64, "node")
                ),
                format!("start nodes, or ALTER KEYSPACE {name} with at most {all} replicas"),
            )
        } else if factor > all {
            Finding::warn(
                CHECK,
                format!("{shown}, but there are {}", count(all as u64, "node")),
                format!("add nodes, or ALTER KEYSPACE {name} with at most {all} replicas"),
            )
        } else if factor == 1 && all > 1 {
            Finding::warn(
                CHECK,
                format!("{shown} on {}: a node that fails takes its rows with it", count(all as u64, "node")),
                &alter,
            )
        } else {
            continue;
        };
        if finding.level > worst.level {
            worst = finding;
        }
    }
    worst
}

fn migrations(name: &str, keyspace: &KeyspaceSeen) -> Vec<Finding> {
    const CHECK: &str = "store migrations";
    let with = |state: MigrationState| -> Vec<String> {
        let of = keyspace.migrations.iter().filter(|migration| migration.state == state);
        of.map(|migration| match migration.name {
            "" => migration.number.to_string(),
            name => format!("{} `{name}`", migration.number),
        })
        .collect()
    };
    let (changed, missing, newer) =
        (with(MigrationState::Changed), with(MigrationState::Missing), with(MigrationState::Newer));
    let mut found = vec![];
    if !changed.is_empty() {
        found.push(Finding::bad(
            CHECK,
            format!("other than those of this version: {}", listed(&changed)),
            format!(
                "use the version that created `{name}`, or another keyspace: services of this version do not start"
            ),
        ));
    }
    if !missing.is_empty() {
        let advice = "services that use the store apply them at their start: start one of this version";
        found.push(Finding::warn(CHECK, format!("missing: {}", listed(&missing)), advice));
    }
    if !newer.is_empty() {
        let advice =
            "use the orbweaver of the version of the services; if these are older than the keyspace, upgrade them";
        found.push(Finding::warn(CHECK, format!("of a newer version: {}", listed(&newer)), advice));
    }
    if found.is_empty() {
        let applied = with(MigrationState::Applied);
        found.push(Finding::ok(CHECK, format!("all {} applied", applied.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orbweaver_store::{MigrationSeen, NodeClock};

    use super::*;
    use crate::doctor::finding::Level;

    fn node(number: u32, is_up: bool, ahead_ms: i64) -> NodeSeen {
        let clock =
            NodeClock { release: "5.0.6".to_owned(), before_ms: 9_000, node_ms: 9_000 + ahead_ms, after_ms: 9_000 };
        NodeSeen {
            address: format!("10.0.0.{number}:9042"),
            datacenter: Some("dc1".to_owned()),
            is_up,
            clock: is_up.then_some(Ok(clock)),
        }
    }

    fn keyspace(of: &str, factor: &str, states: &[MigrationState]) -> KeyspaceSeen {
        let migrations =
            (1..).zip(states).map(|(number, state)| MigrationSeen { number, name: "pages", state: *state });
        KeyspaceSeen {
            replication: BTreeMap::from([(of.to_owned(), factor.to_owned())]),
            migrations: migrations.collect(),
        }
    }

    fn worst(found: &[Finding]) -> Level {
        found.iter().map(|finding| finding.level).max().unwrap()
    }

    #[test]
    fn a_missing_keyspace_is_a_warning_and_an_unreadable_one_bad() {
        let seen = |keyspace| Inspection { nodes: vec![node(1, true, 0)], schema_agrees: Ok(true), keyspace };
        assert_eq!(worst(&store("orbweaver", &seen(Ok(None)))), Level::Warn);
        assert_eq!(worst(&store("orbweaver", &seen(Err("timed out".to_owned())))), Level::Bad);
        let good = keyspace("dc1", "1", &[MigrationState::Applied]);
        assert_eq!(worst(&store("orbweaver", &seen(Ok(Some(good.clone()))))), Level::Ok);
        let disagree = Inspection { schema_agrees: Ok(false), ..seen(Ok(Some(good))) };
        assert_eq!(worst(&store("orbweaver", &disagree)), Level::Warn);
    }

    #[test]
    fn fewer_nodes_than_a_majority_of_the_replicas_are_bad_and_than_all_a_warning() {
        let level = |factor: &str, up: u32, down: u32| {
            let nodes: Vec<_> = (0..up + down).map(|number| node(number, number < up, 0)).collect();
            replication("orbweaver", &keyspace("dc1", factor, &[]), &nodes).level
        };
        assert_eq!((level("3", 3, 0), level("3", 2, 1), level("3", 1, 2)), (Level::Ok, Level::Ok, Level::Bad));
        assert_eq!((level("3", 2, 0), level("3", 1, 0)), (Level::Warn, Level::Bad));
        assert_eq!((level("1", 1, 0), level("1", 3, 0)), (Level::Ok, Level::Warn));
        let elsewhere = keyspace("dc2", "1", &[]);
        assert_eq!(replication("orbweaver", &elsewhere, &[node(1, true, 0)]).level, Level::Bad, "no node there");
        let simple = keyspace("replication_factor", "1", &[]);
        assert_eq!(replication("orbweaver", &simple, &[node(1, true, 0)]).level, Level::Ok);
    }

    #[test]
    fn each_state_of_a_migration_has_its_own_level_and_advice() {
        let level = |states: &[MigrationState]| worst(&migrations("orbweaver", &keyspace("dc1", "1", states)));
        assert_eq!(level(&[MigrationState::Applied]), Level::Ok);
        assert_eq!(level(&[MigrationState::Applied, MigrationState::Missing]), Level::Warn);
        assert_eq!(level(&[MigrationState::Applied, MigrationState::Newer]), Level::Warn);
        assert_eq!(level(&[MigrationState::Changed]), Level::Bad);
        let all = migrations("orbweaver", &keyspace("dc1", "1", &[MigrationState::Missing, MigrationState::Newer]));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_node_that_is_down_and_a_clock_that_differs_are_warnings() {
        assert_eq!(nodes(&[node(1, true, 0), node(2, true, 0)]).level, Level::Ok);
        let found = nodes(&[node(1, true, 0), node(2, false, 0)]);
        assert_eq!((found.level, found.seen.contains("10.0.0.2:9042")), (Level::Warn, true), "{found:?}");
        let level = |ahead_ms| worst(&clocks(&[node(1, true, 0), node(2, true, ahead_ms)]));
        assert_eq!([0, CLOCK_MARGIN_MS, -CLOCK_MARGIN_MS].map(level), [Level::Ok; 3]);
        assert_eq!([CLOCK_MARGIN_MS + 1, -CLOCK_MARGIN_MS - 1].map(level), [Level::Warn; 2]);
        let silent = NodeSeen { clock: Some(Err("timed out".to_owned())), ..node(1, true, 0) };
        assert_eq!(worst(&clocks(&[silent])), Level::Bad);
    }
}
