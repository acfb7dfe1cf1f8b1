//! Service in a cluster: settings and setup.

use std::path::Path;

use orbweaver_messages::{Scope, Traps};
use orbweaver_process::{
    Service, ServiceContext, ServiceError, ServiceId,
    configuration::{SettingError, Settings},
};
use orbweaver_stage::{NoEffects, NoJobs};
use orbweaver_url::PolicyError;

use crate::{Config, DefaultCrawl, IndexKind, NormalizerDedup};

/// Normalizer-dedup as a process.
#[derive(Debug)]
pub struct NormalizerDedupService {
    config: Config,
}

impl Service for NormalizerDedupService {
    const ID: ServiceId = ServiceId::NormalizerDedup;

    fn configure(settings: &Settings) -> Result<Self, Vec<SettingError>> {
        let config = config(settings).map_err(|fault| vec![fault])?;
        config.validate().map_err(|error| {
            let key = error.key.strip_suffix("_ms").unwrap_or(error.key);
            vec![SettingError::allowed(format!("normalizer_dedup.{key}"), error.allowed)]
        })?;
        Ok(Self { config })
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let stage = NormalizerDedup::open(self.config, &*shell.log()).await?;
        crate::metrics::register(shell.registry(), stage.tally()).map_err(ServiceError::start)?;
        shell.run(stage, NoJobs, NoEffects).await
    }
}

fn config(settings: &Settings) -> Result<Config, SettingError> {
    let scope = match settings.text("normalizer_dedup.default_scope")?.as_str() {
        "path" => Scope::Path,
        "site" => Scope::Site,
        "any" => Scope::Any,
        _ => Scope::Host,
    };
    let default = DefaultCrawl {
        scope,
        include: settings.list("normalizer_dedup.default_include")?,
        exclude: settings.list("normalizer_dedup.default_exclude")?,
        max_depth: settings.optional_count("normalizer_dedup.default_max_depth")?,
        max_pages: settings.optional_count("normalizer_dedup.default_max_pages")?,
        traps: match settings.text("normalizer_dedup.default_traps")?.as_str() {
            "off" => Traps::Off,
            "strict" => Traps::Strict,
            _ => Traps::Learn,
        },
        canonical: settings
            .text("normalizer_dedup.default_canonical")?
            .parse()
            .map_err(|error: PolicyError| SettingError::new("normalizer_dedup.default_canonical", error.to_string()))?,
    };
    let index = match settings.text("normalizer_dedup.index")?.as_str() {
        "bloom" => IndexKind::Bloom,
        _ => IndexKind::Exact,
    };
    let index_dir = Path::new(&settings.text("state.dir")?).join(ServiceId::NormalizerDedup.name());
    Ok(Config {
        index,
        recent_entries: settings.count("normalizer_dedup.recent_entries")?,
        default_crawl: settings.text("normalizer_dedup.default_crawl")?,
        definition_grace_ms: settings.time_ms("normalizer_dedup.definition_grace")?,
        default_definition: Some(default),
        wide_domains: settings.wide_domains()?,
        ..Config::new(index_dir)
    })
}

#[cfg(test)]
mod tests {
    use orbweaver_process::configuration::{Given, Origin, Raw};

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library_and_the_default_crawl_is_of_its_seeds_hosts() {
        let (settings, _) = Settings::resolve(ServiceId::NormalizerDedup, &[]);
        let default_definition = Some(DefaultCrawl::new(Scope::Host));
        let library = Config { default_definition, ..Config::new("orbweaver-state/normalizer-dedup") };
        let service = NormalizerDedupService::configure(&settings).unwrap();
        assert_eq!(service.config, library);
    }

    #[test]
    fn what_seeds_alone_begin_is_as_it_was_given() {
        let given = |name: &str, value: &str| Given {
            path: format!("normalizer_dedup.default_{name}"),
            raw: Raw::Scalar(value.to_owned()),
            origin: Origin::Flag("--set"),
        };
        for (scope, traps, default) in [
            ("path", "off", DefaultCrawl { traps: Traps::Off, ..DefaultCrawl::new(Scope::Path) }),
            ("site", "learn", DefaultCrawl { traps: Traps::Learn, ..DefaultCrawl::new(Scope::Site) }),
            ("any", "strict", DefaultCrawl { traps: Traps::Strict, ..DefaultCrawl::new(Scope::Any) }),
        ] {
            let all = [("scope", scope), ("traps", traps), ("max_depth", "3"), ("max_pages", "1000")]
                .map(|(n, v)| given(n, v));
            let (settings, _) = Settings::resolve(ServiceId::NormalizerDedup, &all);
            let wanted = DefaultCrawl { max_depth: Some(3), max_pages: Some(1_000), ..default };
            assert_eq!(NormalizerDedupService::configure(&settings).unwrap().config.default_definition, Some(wanted));
        }
    }
}
