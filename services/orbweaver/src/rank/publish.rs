//! Publication of weights: settings of sites in `crawl.control`.

use std::path::PathBuf;

use orbweaver_log::{EmbeddedLog, Options};

use super::{args::RankArgs, weights::RankedSite};
use crate::{
    crawl::{pipeline::specs, prepare::lock, settings::Settings, site_settings},
    exit::{Failure, failed},
};

/// Log to publish to.
#[derive(Debug)]
pub(super) enum Target {
    /// That of a crawl in one process: its directory `state`.
    Crawl(PathBuf),
    #[cfg(feature = "cluster")]
    Cluster(String, crate::cluster::args::Kafka),
}

impl Target {
    /// Returns the target of the arguments.
    pub(super) fn check(args: &RankArgs) -> Result<Self, Failure> {
        #[cfg(feature = "cluster")]
        if let Some(brokers) = &args.brokers {
            return Ok(Self::Cluster(brokers.clone(), args.kafka.clone()));
        }
        let (dir, state) = (args.dir.display(), args.dir.join("state"));
        match Settings::read(&state)? {
            None => Err(Failure::Usage(format!("--publish: {dir} has no crawl in one process; give --brokers"))),
            Some(settings) if settings.complete => {
                Err(Failure::Usage(format!("--publish: the crawl in {dir} is complete; weights would have no effect")))
            }
            Some(_) => Ok(Self::Crawl(state)),
        }
    }

    /// Sets the weights of the first sites.
    pub(super) fn publish(&self, sites: &[RankedSite], number: usize) -> Result<(), Failure> {
        let weights: Vec<_> = sites.iter().take(number).map(|site| (site.site.clone(), site.weight)).collect();
        let changed = match self {
            Self::Crawl(state) => {
                let _lock = lock(state)?;
                crate::block_on(1, std::time::Duration::ZERO, async {
                    let log = EmbeddedLog::open(state.join("log"), Options::default(), &specs()).map_err(failed)?;
                    let changed = site_settings::weigh(&log, &weights).await?;
                    log.flush().map_err(failed)?;
                    Ok(changed)
                })?
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(brokers, kafka) => crate::cluster::connection::block_on(async {
                let log = crate::cluster::connection::connect(brokers, kafka).await?;
                site_settings::weigh(&log, &weights).await
            })?,
        };
        notice!("published: {changed} of {} weights changed", weights.len());
        Ok(())
    }
}
