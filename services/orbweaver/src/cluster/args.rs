//! Command line of the cluster commands.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use orbweaver_log::{RECORD_LIMIT, RECORD_LIMITS, kafka::GroupProtocol};
use orbweaver_url::Policy;

use crate::cli::Extent;

/// Connection to the brokers.
#[derive(Debug, Clone, Args)]
pub struct Cluster {
    /// Kafka brokers, as HOST:PORT[,HOST:PORT…].
    #[arg(long, value_name = "BROKERS", env = "ORBWEAVER_KAFKA__BROKERS")]
    pub brokers: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kafka: Kafka,
}

/// Kafka options other than the brokers.
#[derive(Debug, Clone, Args)]
pub struct Kafka {
    /// What the names of topics and groups begin with; one prefix is one pipeline.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_KAFKA__PREFIX", default_value = "crawl")]
    pub prefix: String,
    /// Group protocol: `consumer` (Kafka 4 and above) or `classic`.
    #[arg(long, value_name = "PROTOCOL", env = "ORBWEAVER_KAFKA__GROUP_PROTOCOL", default_value_t = GroupProtocol::Consumer)]
    pub group_protocol: GroupProtocol,
    /// Largest record, as configured for the services: 512KiB to 64MiB.
    #[arg(long, value_name = "SIZE", env = "ORBWEAVER_KAFKA__RECORD_LIMIT", default_value = "16MiB", value_parser = record_limit)]
    pub record_limit: usize,
    /// A property of librdkafka, mainly for TLS and SASL (may be repeated). ORBWEAVER_KAFKA__PROPERTIES__NAME also sets
    /// one, and ORBWEAVER_KAFKA__PROPERTIES__NAME_FILE one whose value is in a file: the only ways for secrets, since
    /// every user of the machine can see this command line.
    // Parsed later: an error of clap repeats the text, which may be a secret.
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub property: Vec<String>,
}

impl Default for Kafka {
    fn default() -> Self {
        Self {
            prefix: "crawl".to_owned(),
            group_protocol: GroupProtocol::Consumer,
            record_limit: RECORD_LIMIT,
            property: vec![],
        }
    }
}

fn record_limit(text: &str) -> Result<usize, String> {
    let bytes = text.parse::<bytesize::ByteSize>().ok().and_then(|size| usize::try_from(size.as_u64()).ok());
    bytes.filter(|bytes| RECORD_LIMITS.contains(bytes)).ok_or_else(|| "allowed is 512KiB to 64MiB".to_owned())
}

/// Arguments of `orbweaver seed`.
#[derive(Debug, Args)]
pub struct SeedArgs {
    /// URLs to crawl; a bare host means https.
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// Read seeds from a file, one URL or JSON object per line; `-` is stdin.
    #[arg(long, value_name = "FILE|-")]
    pub seeds: Option<PathBuf>,
    /// Crawl of the seeds, unless a JSON object names another.
    #[arg(long, value_name = "NAME", default_value = crate::crawl::CRAWL)]
    pub crawl: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cluster: Cluster,
}

/// Arguments of `orbweaver status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 shown (with --wait: complete, or at caps), 65 (with --wait) the same with dead letters that were not replayed
(URLs that ended as `stuck` are among them, and counted: `orbweaver dead-letters list --stuck` shows them),
74 the log failed, 75 the time of --max-time was up before it was complete.")]
pub struct StatusArgs {
    /// Refresh every two seconds, until interrupted.
    #[arg(long, conflicts_with_all = ["wait", "json"])]
    pub watch: bool,
    /// Wait until everything is consumed, or only URLs of crawls at their page cap are left.
    #[arg(long)]
    pub wait: bool,
    /// Print JSON, on one line.
    #[arg(long)]
    pub json: bool,
    /// Maximum time to wait, such as 90s or 10m.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "wait")]
    pub max_time: Option<Duration>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cluster: Cluster,
}

/// Arguments of `orbweaver scope`.
#[derive(Debug, Args)]
pub struct ScopeArgs {
    /// Selected subcommand.
    #[command(subcommand)]
    pub verb: ScopeVerb,
}

/// Subcommands of `orbweaver scope`.
#[derive(Debug, Subcommand)]
pub enum ScopeVerb {
    /// Show the definition of a crawl that applies, and its version.
    Show {
        /// Name of the crawl.
        #[arg(value_name = "NAME", default_value = crate::crawl::CRAWL)]
        name: String,
        /// Print JSON, on one line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// Change the definition of a crawl while it runs; options that are not given keep their values.
    #[command(after_help = "\
All services go by the new definition within seconds, without a restart. What waits and is outside now is not fetched; what was
left out before is met again only when a page that links to it is fetched.

Exit codes: 0 it applies, 64 it may not be changed so, 74 the log failed, 75 another change came first: nothing was changed.")]
    Set(Box<ScopeSet>),
}

/// Arguments of `orbweaver scope set`.
#[derive(Debug, Args)]
pub struct ScopeSet {
    /// Name of the crawl.
    #[arg(value_name = "NAME", default_value = crate::crawl::CRAWL)]
    pub name: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub extent: Extent,
    /// Change it only if this version applies, as shown by `scope show`.
    #[arg(long, value_name = "VERSION")]
    pub expect: Option<u64>,
    /// What counts as the same page. It cannot change: a policy other than that of the crawl's creation is rejected.
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// A domain whose hosts are sites of their own (may be repeated). It cannot change either.
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cluster: Cluster,
}

/// Arguments of `orbweaver topics`.
#[derive(Debug, Args)]
pub struct TopicsArgs {
    /// Selected subcommand.
    #[command(subcommand)]
    pub verb: TopicsVerb,
}

/// Subcommands of `orbweaver topics`.
#[derive(Debug, Subcommand)]
pub enum TopicsVerb {
    /// Create the topics that are missing, and the crawl `default`; existing ones are not changed.
    Create {
        /// Partitions of every topic: a power of two up to 16384. It cannot change later.
        #[arg(long, value_name = "N", default_value_t = 16)]
        partitions: u32,
        /// Replicas of every record [default: that of the brokers].
        #[arg(long, value_name = "N")]
        replication: Option<u16>,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// Report everything about the topics that would lose records or stop a service, and how to fix it.
    Check {
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// List the topics with their partitions, offsets and purpose.
    List {
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
}

/// Arguments of `orbweaver consumers`.
#[derive(Debug, Args)]
pub struct ConsumersArgs {
    /// Selected subcommand.
    #[command(subcommand)]
    pub verb: ConsumersVerb,
}

/// Subcommands of `orbweaver consumers`.
#[derive(Debug, Subcommand)]
pub enum ConsumersVerb {
    /// Show the declared groups and how many records each keeps.
    List {
        /// Print JSON, one line per group and topic.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// Declare a consumer group: documents that it has not committed are kept from now on.
    Add {
        /// Name of the group; its `group.id` is PREFIX.GROUP.
        #[arg(value_name = "GROUP")]
        group: String,
        /// Start position in partitions without a commit of the group: the oldest document that is held, or the log
        /// end.
        #[arg(long, value_enum, default_value_t = From::Start)]
        from: From,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// Remove a declared group, or a collector that will not resume: it keeps no more records.
    Remove {
        /// Name of the group.
        #[arg(value_name = "GROUP")]
        group: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
}

/// Start position of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// The first record that is held.
    Start,
    /// The log end.
    End,
}

/// Arguments of `orbweaver dead-letters`.
#[derive(Debug, Args)]
pub struct DeadLettersArgs {
    /// Selected subcommand.
    #[command(subcommand)]
    pub verb: DeadLettersVerb,
}

/// Subcommands of `orbweaver dead-letters`.
#[derive(Debug, Subcommand)]
pub enum DeadLettersVerb {
    /// Show records that could not be processed, with the reason. One JSON line each, oldest first.
    List {
        /// Maximum number of dead letters to show.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Only URLs that ended as `stuck`: their dispatches were lost again and again.
        #[arg(long)]
        stuck: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
    /// Append records to their original topic again, after the cause has been fixed.
    Replay {
        /// Dead letters to replay, named as by `list`: PARTITION:OFFSET.
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all", value_parser = id)]
        ids: Vec<(u32, u64)>,
        /// Replay all that were not replayed before.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        cluster: Cluster,
    },
}

fn id(text: &str) -> Result<(u32, u64), String> {
    let wrong = "a dead letter is named PARTITION:OFFSET, as `orbweaver dead-letters list` shows it";
    let (partition, offset) = text.split_once(':').ok_or(wrong)?;
    Ok((partition.parse().map_err(|_| wrong)?, offset.parse().map_err(|_| wrong)?))
}
