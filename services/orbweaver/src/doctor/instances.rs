//! Check of the members of each group against the partitions (pure).

use super::finding::{Finding, count};
use crate::crawl::progress::number;

/// Members of a group, as far as the brokers report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// The brokers do not list the group.
    Unlisted,
    /// This client cannot read the members of a group of the `consumer` protocol.
    Unreported,
    Known(usize),
}

/// A group of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSeen {
    pub service: String,
    pub members: Members,
    /// Offsets between commits and log ends, over all topics of the group.
    pub lag: u64,
    /// Partitions of each topic.
    pub partitions: u32,
}

/// Returns a finding per group.
#[must_use]
pub fn instances(seen: &[GroupSeen]) -> Vec<Finding> {
    seen.iter().map(group).collect()
}

fn group(seen: &GroupSeen) -> Finding {
    let GroupSeen { service, members, lag, partitions } = seen;
    let (check, room) = (format!("instances of {service}"), u64::from(*partitions));
    let start = format!("start orbweaver-{service}; if it runs, its log and /readyz say why it has not joined");
    match *members {
        Members::Unlisted => {
            Finding::bad(check, "the brokers list no group of this service", "orbweaver topics create")
        }
        // A group that only has commits belongs to no protocol: members of either would be reported.
        Members::Known(0) if *lag > 0 => {
            Finding::bad(check, format!("none runs, with a lag of {}", number(*lag)), start)
        }
        Members::Known(0) => Finding::warn(check, "none runs", start),
        Members::Known(members) if members as u64 > room => Finding::warn(
            check,
            format!("{members} for {}: {} idle", count(room, "partition"), members as u64 - room),
            format!("stop {} of them: the number of partitions cannot grow", members as u64 - room),
        ),
        Members::Known(members) => Finding::ok(check, format!("{members} for {}", count(room, "partition"))),
        Members::Unreported => Finding::ok(
            check,
            format!(
                "not known for {}: this client cannot list members of the group protocol `consumer`; see the progress",
                count(room, "partition")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    fn level(members: Members, lag: u64) -> Level {
        instances(&[GroupSeen { service: "fetcher".to_owned(), members, lag, partitions: 4 }])[0].level
    }

    #[test]
    fn a_stage_without_members_is_bad_if_records_wait_for_it() {
        assert_eq!((level(Members::Known(0), 1), level(Members::Known(0), 0)), (Level::Bad, Level::Warn));
        assert_eq!((level(Members::Known(1), 9), level(Members::Unreported, 9)), (Level::Ok, Level::Ok));
        assert_eq!(level(Members::Unlisted, 0), Level::Bad);
    }

    #[test]
    fn members_without_a_partition_are_a_warning() {
        assert_eq!((level(Members::Known(4), 0), level(Members::Known(5), 0)), (Level::Ok, Level::Warn));
    }
}
