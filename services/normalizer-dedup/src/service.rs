//! Service in a cluster: settings and setup.

use std::path::Path;

use orbweaver_process::{Service, ServiceContext, ServiceError, State, configuration::Settings};
use orbweaver_stage::{NoEffects, NoJobs};

use crate::{Config, NormalizerDedup};

/// Normalizer-dedup as a process.
#[derive(Debug)]
pub struct NormalizerDedupService {
    config: Config,
}

impl Service for NormalizerDedupService {
    const NAME: &'static str = "normalizer-dedup";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Converts URLs to canonical form and admits each URL once.";
    const LISTEN: &'static str = "127.0.0.1:9461";
    /// A record holds the links of a page: 10,000 took 570 MB.
    const RECORDS: Option<&'static str> = Some("2500");

    fn configure(settings: &mut Settings, _: usize) -> Self {
        let State { dir } = settings.section();
        Self { config: Config { creates_default_crawl: true, index_dir: dir.join(Self::NAME), ..settings.section() } }
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.config.index_dir)
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let stage = NormalizerDedup::open(self.config, &*shell.log()?).await?;
        crate::metrics::register(shell.registry(), stage.tally()).map_err(ServiceError::start)?;
        shell.run(stage, NoJobs, NoEffects).await
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{Scope, Traps};
    use orbweaver_process::{configuration::Inputs, configure};

    use super::*;

    #[test]
    fn what_seeds_alone_begin_is_as_it_was_given() {
        let flags = [("scope", "path"), ("traps", "off"), ("max_depth", "3"), ("max_pages", "1000")];
        let flags = flags.map(|(name, value)| ("--set", format!("normalizer_dedup.default_{name}"), value.to_owned()));
        let configured = |flags| configure::<NormalizerDedupService>(&Inputs { flags, ..Inputs::default() }).0.config;
        let default = Config { creates_default_crawl: true, ..Config::new("orbweaver-state/normalizer-dedup") };
        assert_eq!(configured(vec![]), default);
        let (default_scope, default_traps) = (Scope::Path, Traps::Off);
        let (default_max_depth, default_max_pages) = (Some(3), Some(1_000));
        let given = Config { default_scope, default_traps, default_max_depth, default_max_pages, ..default };
        assert_eq!(configured(flags.into()), given);
    }
}
