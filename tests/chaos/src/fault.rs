//! Faults that a schedule may contain.

use std::fmt;

use orbweaver_cluster_tests::Service;

/// Position of an instance: a successor takes the position of an instance that was killed or drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Service of the instance.
    pub service: Service,
    /// Number among the service's instances, from 1.
    pub number: u32,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.service.name(), self.number)
    }
}

/// A server that a run may make unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// The broker with this number, from 1.
    Broker(u8),
    /// The store.
    Cql,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(node) => write!(f, "broker {node}"),
            Self::Cql => f.write_str("the CQL server"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL; a successor starts after a while, on the local state of its predecessor or on none.
    Kill {
        /// The instance.
        slot: Slot,
        /// Time until the successor starts, in milliseconds.
        back_after_ms: u64,
        /// Whether the successor finds its predecessor's directory.
        keeps_state: bool,
    },
    /// Exhausts the memory of an instance, so that the kernel kills it; a successor starts later on its state.
    OutOfMemory {
        /// The instance.
        slot: Slot,
        /// Time until the successor starts, in milliseconds.
        back_after_ms: u64,
    },
    /// Fills the disk with the states of all instances.
    DiskFull {
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// Sets the wall clock of all instances by an hour.
    Clock {
        /// Whether it is set ahead; otherwise back.
        ahead: bool,
        /// Duration, in milliseconds.
        for_ms: u64,
        /// Whether it is set right again afterwards; otherwise it stays until the end.
        returns: bool,
    },
    /// SIGSTOP, then SIGCONT after the session has expired: a stale owner.
    Freeze {
        /// The instance.
        slot: Slot,
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// SIGTERM, after which the instance must exit with 0; a successor starts in its directory.
    Drain {
        /// The instance.
        slot: Slot,
        /// Time from the exit to the start of the successor, in milliseconds.
        back_after_ms: u64,
    },
    /// Starts an additional instance.
    Add {
        /// The new instance.
        slot: Slot,
    },
    /// SIGTERM without a successor.
    Remove {
        /// The instance.
        slot: Slot,
    },
    /// Stops a broker and restarts it on its data.
    Broker {
        /// Number of the broker, from 1.
        node: u8,
        /// Whether it is stopped by SIGKILL; otherwise by SIGTERM.
        killed: bool,
        /// Time until its restart, in milliseconds, excluding its start-up.
        away_ms: u64,
    },
    /// Kills the CQL server and restarts it on its data.
    Cql {
        /// Time until its restart, in milliseconds, excluding its start-up.
        away_ms: u64,
    },
    /// Kills all fetchers and restarts them later.
    NoFetchers {
        /// Time until the restart, in milliseconds.
        away_ms: u64,
    },
    /// Cuts all services off from a server, which continues without them.
    Cut {
        server: Server,
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// Cuts an instance off from all servers; it continues, while its partitions go to others.
    CutOff {
        /// The instance.
        slot: Slot,
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// Slows the network between services and servers.
    Slow {
        /// Additional latency in each direction, in milliseconds.
        by_ms: u64,
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// Pauses the second crawl, and resumes it.
    Pause {
        /// Duration, in milliseconds.
        for_ms: u64,
    },
    /// Creates a third crawl, deletes it once it has pages, and creates one with its name.
    Delete,
    /// Cuts all services off from all servers, several times in a row.
    Outages {
        /// Number of outages.
        times: u32,
        /// Duration of each outage, in milliseconds.
        for_ms: u64,
        /// Pause between two outages, in milliseconds.
        pause_ms: u64,
    },
}

impl Fault {
    /// Returns the name of the fault's kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::DiskFull { .. } => "disk_full",
            Self::Clock { ahead: false, .. } => "clock_back",
            Self::Clock { ahead: true, .. } => "clock_ahead",
            Self::Freeze { .. } => "freeze",
            Self::Drain { .. } => "drain",
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Broker { .. } => "broker",
            Self::Cql { .. } => "cql",
            Self::NoFetchers { .. } => "no_fetchers",
            Self::Cut { .. } => "cut",
            Self::CutOff { .. } => "cut_off",
            Self::Slow { .. } => "slow",
            Self::Pause { .. } => "pause",
            Self::Delete => "delete",
            Self::Outages { .. } => "outages",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { slot, back_after_ms, keeps_state } => {
                let on = if *keeps_state { "its state" } else { "no state" };
                write!(f, "kill {slot}, back on {on} after {back_after_ms} ms")
            }
            Self::OutOfMemory { slot, back_after_ms } => {
                write!(f, "let {slot} run out of memory, back after {back_after_ms} ms")
            }
            Self::DiskFull { for_ms } => write!(f, "fill the disk for {for_ms} ms"),
            Self::Clock { ahead, for_ms, returns } => {
                let (side, until) = (if *ahead { "ahead" } else { "back" }, if *returns { "" } else { " and longer" });
                write!(f, "set all clocks {side} by an hour for {for_ms} ms{until}")
            }
            Self::Freeze { slot, for_ms } => write!(f, "freeze {slot} for {for_ms} ms"),
            Self::Drain { slot, back_after_ms } => write!(f, "drain {slot}, back after {back_after_ms} ms"),
            Self::Add { slot } => write!(f, "add {slot}"),
            Self::Remove { slot } => write!(f, "remove {slot}"),
            Self::Broker { node, killed, away_ms } => {
                write!(f, "{} broker {node} for {away_ms} ms", if *killed { "kill" } else { "terminate" })
            }
            Self::Cql { away_ms } => write!(f, "kill the CQL server for {away_ms} ms"),
            Self::NoFetchers { away_ms } => write!(f, "kill all fetchers for {away_ms} ms"),
            Self::Cut { server, for_ms } => write!(f, "cut {server} off from all services for {for_ms} ms"),
            Self::CutOff { slot, for_ms } => write!(f, "cut {slot} off from all servers for {for_ms} ms"),
            Self::Slow { by_ms, for_ms } => write!(f, "slow the network by {by_ms} ms for {for_ms} ms"),
            Self::Pause { for_ms } => write!(f, "pause the second crawl for {for_ms} ms"),
            Self::Delete => f.write_str("delete the third crawl, and create one with its name"),
            Self::Outages { times, for_ms, pause_ms } => {
                write!(f, "cut all servers off {times} times for {for_ms} ms, {pause_ms} ms between")
            }
        }
    }
}
