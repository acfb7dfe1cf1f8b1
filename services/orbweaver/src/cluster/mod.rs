//! The command on a cluster: the services run elsewhere, and all communication goes through the log.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the command line of these commands |
//! | [`connection`] | connections to the brokers and the store |
//! | [`seed`] | `orbweaver seed`: writes URLs to `crawl.seeds` |
//! | [`crawl`] | `orbweaver crawl --brokers`: defines a crawl, seeds it, collects its results, watches it to its end |
//! | `collector` | collector of a crawl's results, with a consumer group per directory |
//! | `crawl_status` | `orbweaver status --crawl`: the proof that one crawl is complete while others run |
//! | [`stage_status`], [`status`] | `orbweaver status`: the progress of every stage, computed from offsets |
//! | [`crawls`] | `orbweaver crawls`: creates, lists and shows crawls, changes, pauses and resumes them while they run |
//! | `delete` | `orbweaver crawls delete`: ends a crawl, and deletes its rows and settings |
//! | `dead_batches` | removal of the URLs of deleted crawls from `crawl.seen` |
//! | `crawl_urls` | the admitted URLs of a crawl, from `crawl.seen` |
//! | [`profile`] | options of a crawl's fetch profile |
//! | [`site`] | `orbweaver site`: settings of a site, which apply while crawls run |
//! | [`topics`] | `orbweaver topics`: creates, checks and lists topics |
//! | [`consumers`] | `orbweaver consumers`: declares groups that keep records from being deleted |
//! | [`dead_letters`] | `orbweaver dead-letters`: lists and replays |

pub mod args;
pub(crate) mod caps;
mod collector;
pub mod connection;
pub mod consumers;
pub mod crawl;
mod crawl_status;
mod crawl_urls;
pub mod crawls;
mod dead_batches;
pub mod dead_letters;
mod delete;
pub mod profile;
pub mod recrawl;
pub mod seed;
pub mod site;
pub mod stage_status;
pub mod status;
pub mod topics;

use args::ClusterCommand;

/// Runs a cluster command.
pub(crate) fn run(command: &ClusterCommand) -> Result<(), crate::exit::Failure> {
    match command {
        ClusterCommand::Seed(args) => seed::run(args),
        ClusterCommand::Recrawl(args) => recrawl::run(args),
        ClusterCommand::Status(args) => status::run(args),
        ClusterCommand::Crawls(args) => crawls::run(args),
        ClusterCommand::Site(args) => site::run(args),
        ClusterCommand::Topics(args) => topics::run(args),
        ClusterCommand::Consumers(args) => consumers::run(args),
        ClusterCommand::DeadLetters(args) => dead_letters::run(args),
    }
}
