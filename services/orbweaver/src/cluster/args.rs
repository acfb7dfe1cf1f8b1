//! Command line of the cluster commands.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use orbweaver_log::{MAX_PARTITIONS, RECORD_LIMITS, kafka::GroupProtocol};
use orbweaver_messages::Priority;
use orbweaver_url::{CrawlName, Policy};

use super::{delete::CrawlsDelete, profile::ProfileOptions, recrawl::RecrawlArgs};
use crate::cli::{Extent, Rate};

/// Connection to the brokers.
#[derive(Debug, Clone, Args)]
pub struct Cluster {
    /// Kafka brokers, as HOST:PORT[,HOST:PORT…].
    #[arg(long, value_name = "BROKERS", env = "ORBWEAVER_KAFKA__BROKERS")]
    pub brokers: String,
    #[command(flatten)]
    pub kafka: Kafka,
}

/// Kafka options other than the brokers.
#[derive(Debug, Clone, Args)]
pub struct Kafka {
    /// Prefix of the names of topics and groups; each pipeline has its own.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_KAFKA__PREFIX", default_value = "crawl")]
    pub prefix: String,
    /// Group protocol: `consumer` (Kafka 4 and above) or `classic`.
    #[arg(long, value_name = "PROTOCOL", env = "ORBWEAVER_KAFKA__GROUP_PROTOCOL", default_value_t = GroupProtocol::Consumer)]
    pub group_protocol: GroupProtocol,
    /// Maximum size of a record, as configured for the services: 512KiB to 64MiB.
    #[arg(long, value_name = "SIZE", env = "ORBWEAVER_KAFKA__RECORD_LIMIT", default_value = "16MiB", value_parser = record_limit)]
    pub record_limit: usize,
    /// Property of librdkafka, mainly for TLS and SASL (may be repeated). Set secrets by the environment variable
    /// ORBWEAVER_KAFKA__PROPERTIES__NAME, or ORBWEAVER_KAFKA__PROPERTIES__NAME_FILE for a value in a file: every user
    /// of the machine can see the command line.
    // Parsed later: an error of clap repeats the text, which may be a secret.
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub property: Vec<String>,
}

fn record_limit(text: &str) -> Result<usize, String> {
    let bytes = text.parse::<bytesize::ByteSize>().ok().and_then(|size| usize::try_from(size.as_u64()).ok());
    bytes.filter(|bytes| RECORD_LIMITS.contains(bytes)).ok_or_else(|| "expected a size from 512KiB to 64MiB".to_owned())
}

/// Options of `orbweaver crawl` that apply to a cluster only.
#[derive(Debug, Args)]
pub struct CrawlOptions {
    /// Crawl with the services of a cluster: its Kafka brokers, as HOST:PORT[,HOST:PORT…]. Given request settings are
    /// then stored with the crawl, all others are those of the services, and results are written only with --out.
    #[arg(long, value_name = "BROKERS")]
    pub brokers: Option<String>,
    /// Also connect to the cluster's CQL servers, and create the tables if they are missing: HOST:PORT[,HOST:PORT…].
    #[arg(long, value_name = "NODES", requires = "brokers")]
    pub cql: Option<String>,
    /// Keyspace of the tables.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_CQL__KEYSPACE", default_value = "orbweaver")]
    pub keyspace: String,
    /// Replicas of each row, if the keyspace has to be created.
    #[arg(long, value_name = "N", env = "ORBWEAVER_CQL__REPLICATION_FACTOR", default_value_t = 3)]
    pub cql_replication: u8,
    /// Name of the crawl [default: default].
    #[arg(long, value_name = "NAME", requires = "brokers")]
    pub crawl: Option<CrawlName>,
    #[command(flatten)]
    pub kafka: Kafka,
}

/// Subcommands that apply to a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Add seed URLs to a crawl of a cluster.
    Seed(SeedArgs),
    /// Fetch URLs of a crawl of a cluster again, although the crawl knows them. A URL out of scope is not fetched; one that is
    /// queued, in flight or was fetched a moment ago is not fetched twice.
    Recrawl(Box<RecrawlArgs>),
    /// Show the progress of every stage of a cluster, or wait for completion.
    Status(StatusArgs),
    /// Create, list, show, change, pause, resume, stop and delete the crawls of a cluster.
    #[command(subcommand)]
    Crawls(CrawlsVerb),
    /// Show the settings of a site, change its rate, freeze or thaw it, on a cluster while crawls run.
    #[command(subcommand)]
    Site(SiteVerb),
    /// Create, check and list the topics of a cluster.
    #[command(subcommand)]
    Topics(TopicsVerb),
    /// List, declare and remove the consumer groups for which documents are retained.
    #[command(subcommand)]
    Consumers(ConsumersVerb),
    /// Show records that could not be processed, and replay them.
    #[command(subcommand)]
    DeadLetters(DeadLettersVerb),
}

/// Arguments of `orbweaver seed`.
#[derive(Debug, Args)]
pub struct SeedArgs {
    /// URLs to crawl; a bare host means https.
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// Read seeds from a file, one URL or JSON object (schemas/seed.v1.schema.json) per line; `-` is stdin.
    #[arg(long, value_name = "FILE|-")]
    pub seeds: Option<PathBuf>,
    /// Crawl of the seeds, unless a JSON object names another.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub crawl: CrawlName,
    /// Priority of the seeds that have none, and of the URLs that are found from there, from -10 to 10: each step doubles
    /// their weight, as one link less from the seed does.
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, allow_negative_numbers = true)]
    pub priority: Priority,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Arguments of `orbweaver status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 shown (with --wait: complete, or only capped URLs are left), 65 (with --wait) as 0, but with dead letters
that were not replayed (including URLs that ended as `stuck`: `orbweaver dead-letters list --stuck` shows them),
74 the log failed, or (with --wait) records were deleted before they were processed,
75 --max-time was reached before completion.")]
pub struct StatusArgs {
    /// Refresh every two seconds, until interrupted.
    #[arg(long, conflicts_with_all = ["wait", "json"])]
    pub watch: bool,
    /// Wait until everything is consumed, or only URLs of crawls at their page cap are left.
    #[arg(long)]
    pub wait: bool,
    /// Show this crawl alone; with --wait, wait until it is complete or at its page cap, whatever other crawls do.
    #[arg(long, value_name = "NAME", conflicts_with = "watch")]
    pub crawl: Option<CrawlName>,
    /// Print JSON, on one line.
    #[arg(long)]
    pub json: bool,
    /// Maximum time to wait, such as 90s or 10m.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration, requires = "wait")]
    pub max_time: Option<Duration>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Create, list, show, change, pause, resume, stop and delete the crawls of a cluster.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Exit codes: 0 done, 64 the crawl does not exist (create: exists), or the change is not allowed, 74 the log failed,
75 another change came first: nothing was changed.")]
pub enum CrawlsVerb {
    /// Create a crawl without seeds; `orbweaver seed --crawl NAME` adds them.
    Create(Box<CrawlsCreate>),
    /// List all crawls with their state and number of pages.
    List {
        /// Print JSON, one line per crawl.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Show the definition that applies to a crawl, its version, and the number of pages.
    Show {
        /// Name of the crawl.
        #[arg(value_name = "NAME", default_value_t)]
        name: CrawlName,
        /// Print JSON, on one line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Change the definition of a crawl while it runs; options that are not given keep their values.
    #[command(after_help = "\
All services use the new definition within seconds, without a restart. Queued URLs that are out of scope now are not
fetched. URLs that were out of scope before are discovered again only when a page that links to them is fetched.
No request starts with earlier request settings, such as the user agent, later than one second after the answer.")]
    Set(Box<CrawlsSet>),
    /// Send no further request for a crawl, within a second; its URLs stay queued. Requests in flight finish.
    Pause {
        #[command(flatten)]
        target: CrawlsTarget,
    },
    /// Resume a paused crawl.
    Resume {
        #[command(flatten)]
        target: CrawlsTarget,
    },
    /// Stop a crawl for good: send no further request for it, within a second, and end its queued URLs as `refused:
    /// stopped`. Its results stay. Requests in flight finish.
    #[command(after_help = "\
`orbweaver status --crawl NAME --wait` ends when nothing of the crawl is left in the pipeline. A stopped crawl cannot continue: create another one.")]
    Stop {
        #[command(flatten)]
        target: CrawlsTarget,
    },
    /// Stop a crawl for good, and delete its pages and settings, once nothing of it is left in the pipeline.
    Delete(Box<CrawlsDelete>),
}

/// Arguments of `orbweaver crawls create`.
#[derive(Debug, Args)]
pub struct CrawlsCreate {
    /// Name of the crawl.
    #[arg(value_name = "NAME")]
    pub name: CrawlName,
    #[command(flatten)]
    pub extent: Extent,
    #[command(flatten)]
    pub profile: ProfileOptions,
    #[command(flatten)]
    pub share: ShareOption,
    /// Canonicalization policy; it cannot change later [default: standard].
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// Domain whose hosts count as separate sites (may be repeated); the same for all crawls of a pipeline.
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Share of a crawl.
#[derive(Debug, Args)]
pub struct ShareOption {
    /// Share of dispatches, fetch slots and the rate of shared sites, relative to the other crawls that have URLs to fetch, from 1 to 10000
    /// [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub share: Option<u32>,
}

/// Arguments of `orbweaver crawls set`.
#[derive(Debug, Args)]
pub struct CrawlsSet {
    #[command(flatten)]
    pub target: CrawlsTarget,
    #[command(flatten)]
    pub extent: Extent,
    #[command(flatten)]
    pub profile: ProfileOptions,
    #[command(flatten)]
    pub share: ShareOption,
    /// Reset the user agent and all other settings of requests to those of the services, except those given here.
    #[arg(long)]
    pub default_profile: bool,
    /// Canonicalization policy. Fixed when the crawl is created: any other policy is rejected.
    #[arg(long, value_name = "POLICY")]
    pub canonical: Option<Policy>,
    /// Domain whose hosts count as separate sites (may be repeated). Fixed as well: any other list is rejected.
    #[arg(long, value_name = "DOMAIN")]
    pub wide_domain: Vec<String>,
}

/// A crawl that changes.
#[derive(Debug, Args)]
pub struct CrawlsTarget {
    /// Name of the crawl.
    #[arg(value_name = "NAME", default_value_t)]
    pub name: CrawlName,
    /// Change it only if this version applies, as shown by `crawls show`.
    #[arg(long, value_name = "VERSION")]
    pub expect: Option<u64>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Show the settings of a site, change its rate, freeze or thaw it, on a cluster while crawls run.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
A site is given as a URL, a host or the site itself. Its settings hold for all crawls, and apply within a second at every
service that reads the log. Requests in flight finish.

Exit codes: 0 the settings apply, 64 the site is malformed, 74 the log failed,
75 another change came first: nothing was changed.")]
pub enum SiteVerb {
    /// Show the settings that apply to a site, and their version.
    Show {
        /// The site, one of its hosts, or a URL.
        #[arg(value_name = "SITE")]
        site: String,
        /// Print JSON, on one line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Set the maximum rate of requests to a site, or its weight.
    #[command(group = clap::ArgGroup::new("setting").required(true).multiple(true))]
    Set {
        /// Requests per second, from 0.001 to 10, or `default` for the configured rate. A crawl-delay and refusals still
        /// slow the site down.
        #[arg(long, value_name = "N|default", group = "setting")]
        rate: Option<SiteRate>,
        /// Weight of the site's URLs compared with those of other sites, in percent, from 1 to 10000: how often it
        /// is served while more sites are due than can be requested. 100 is that of a site without settings. It applies from
        /// the next request to the site on.
        #[arg(long, value_name = "PERCENT", group = "setting", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        weight: Option<u32>,
        #[command(flatten)]
        target: SiteChange,
    },
    /// Send no further request to a site; its URLs stay queued.
    Freeze {
        #[command(flatten)]
        target: SiteChange,
    },
    /// Send requests to a frozen site again.
    Thaw {
        #[command(flatten)]
        target: SiteChange,
    },
}

/// A site whose settings change.
#[derive(Debug, Args)]
pub struct SiteChange {
    /// The site, one of its hosts, or a URL.
    #[arg(value_name = "SITE")]
    pub site: String,
    /// Change it only if this version applies, as shown by `site show`; 0: only if it has no settings.
    #[arg(long, value_name = "VERSION")]
    pub expect: Option<u64>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Rate of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteRate {
    /// As configured.
    Default,
    /// Minimum time between two requests, in milliseconds.
    Interval(u64),
}

impl std::str::FromStr for SiteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "default" {
            return Ok(Self::Default);
        }
        match text.parse() {
            Ok(Rate::PerSecond(rate)) if rate <= 10.0 => Ok(Self::Interval(Rate::PerSecond(rate).interval_ms())),
            _ => Err("expected requests per second from 0.001 to 10, or `default`".to_owned()),
        }
    }
}

/// Create, check and list the topics of a cluster.
#[derive(Debug, Subcommand)]
pub enum TopicsVerb {
    /// Create the topics that are missing, and the crawl `default`; existing ones are not changed.
    Create {
        /// Partitions of every topic: a power of two up to 16384. It cannot change later.
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = partitions)]
        partitions: u32,
        /// Replicas of every record [default: the setting of the brokers].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        replication: Option<u16>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Report all problems of topics that would lose records or stop a service, and how to fix them.
    Check {
        #[command(flatten)]
        cluster: Cluster,
    },
    /// List the topics with their partitions, offsets and purpose.
    List {
        #[command(flatten)]
        cluster: Cluster,
    },
}

fn partitions(text: &str) -> Result<u32, String> {
    let partitions = text.parse().ok().filter(|partitions: &u32| partitions.is_power_of_two());
    let partitions = partitions.filter(|partitions| *partitions <= MAX_PARTITIONS);
    partitions.ok_or_else(|| format!("expected a power of two up to {MAX_PARTITIONS}: 1, 2, 4, 8, 16, …"))
}

/// List, declare and remove the consumer groups for which documents are retained.
#[derive(Debug, Subcommand)]
pub enum ConsumersVerb {
    /// Show the declared groups, and the number of records retained for each.
    List {
        /// Print JSON, one line per group and topic.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Declare a consumer group: from now on, records of its topics are retained until it has committed them. May wait
    /// half a minute for deletions in progress.
    Add {
        /// Name of the group; its `group.id` is PREFIX.GROUP.
        #[arg(value_name = "GROUP")]
        group: String,
        /// Start position in partitions without a commit of the group: the oldest retained record, or the log
        /// end.
        #[arg(long, value_enum, default_value_t = From::Start)]
        from: From,
        /// Topic that it reads (may be repeated).
        #[arg(long, value_enum, default_value = "documents")]
        topic: Vec<UserTopic>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Remove a declared group, or that of a collector that will not resume: records are no longer retained for it.
    Remove {
        /// Name of the group.
        #[arg(value_name = "GROUP")]
        group: String,
        #[command(flatten)]
        cluster: Cluster,
    },
}

/// Start position of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// The oldest retained record.
    Start,
    /// The log end.
    End,
}

/// Topic for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UserTopic {
    /// Documents of pages.
    Documents,
    /// Changes of pages, of crawls with revisits.
    Changes,
    /// Responses with their bodies.
    Pages,
}

/// Show records that could not be processed, and replay them.
#[derive(Debug, Subcommand)]
pub enum DeadLettersVerb {
    /// Show records that could not be processed, with the reason, oldest first, one JSON line per record.
    List {
        /// Maximum number of dead letters to show.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Show only URLs that ended as `stuck`: their dispatches were lost repeatedly.
        #[arg(long)]
        stuck: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Append dead letters to their original topics again, after the cause has been fixed.
    Replay {
        /// IDs of the dead letters to replay, as shown by `list`: PARTITION:OFFSET.
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all", value_parser = id)]
        ids: Vec<(u32, u64)>,
        /// Replay all dead letters that were not replayed before.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

fn id(text: &str) -> Result<(u32, u64), String> {
    let wrong = "expected PARTITION:OFFSET, as shown by `orbweaver dead-letters list`";
    let (partition, offset) = text.split_once(':').ok_or(wrong)?;
    Ok((partition.parse().map_err(|_| wrong)?, offset.parse().map_err(|_| wrong)?))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::Cli;

    #[test]
    fn seeds_of_a_crawl_with_an_allowed_name_are_no_dead_letters() {
        for (name, is_allowed) in [("docs", true), ("", false), ("a\nb", false), (&*"x".repeat(201), false)] {
            let words = ["orbweaver", "crawl", "example.org", "--brokers", "localhost:9", "--crawl", name];
            assert_eq!(Cli::try_parse_from(words).is_ok(), is_allowed, "{name}");
        }
    }

    #[test]
    fn a_number_of_partitions_that_is_not_allowed_is_refused_before_the_brokers_are_asked() {
        let create = |partitions: &str| {
            let words = ["orbweaver", "topics", "create", "--brokers", "localhost:9", "--partitions", partitions];
            Cli::try_parse_from(words).map(drop).map_err(|error| error.to_string())
        };
        for partitions in ["1", "16", "16384"] {
            assert_eq!(create(partitions), Ok(()));
        }
        for partitions in ["0", "3", "32768", "many"] {
            let error = create(partitions).unwrap_err();
            assert!(error.contains("power of two up to 16384"), "{partitions}: {error}");
        }
    }
}
