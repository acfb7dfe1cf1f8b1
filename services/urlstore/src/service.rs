//! The service as a process of a cluster: settings and start.

use orbweaver_process::{Service, ServiceContext, ServiceError, configuration::Settings};
use orbweaver_url::Policy;

use crate::{Api, Archive, Sources, UrlstoreConfig, UrlstoreMetrics, server};

/// Urlstore as a process.
#[derive(Debug)]
pub struct UrlstoreService(UrlstoreConfig);

impl Service for UrlstoreService {
    const NAME: &'static str = "urlstore";
    const BINARY: &'static str = env!("CARGO_PKG_NAME");
    const ABOUT: &'static str = "Serves all that the store knows of a URL over HTTP, read-only.";
    const LISTEN: &'static str = "127.0.0.1:9467";
    const HAS_LOG: bool = false;
    const HAS_STORE: bool = true;

    fn configure(settings: &mut Settings, _: usize) -> Self {
        Self(settings.section())
    }

    async fn serve(self, shell: ServiceContext) -> Result<(), ServiceError> {
        let Self(config) = self;
        let metrics = UrlstoreMetrics::register(shell.registry()).map_err(ServiceError::start)?;
        let archive = config.archive.as_deref().map(Archive::open).transpose().map_err(ServiceError::start)?;
        let sources = Sources { store: shell.store()?, archive, policy: Policy::STANDARD, live: None };
        let tls = config.tls_files().map(|(certificate, key)| server::Tls::read(certificate, key)).transpose();
        let tls = tls.map_err(ServiceError::start)?;
        let (listener, address) = server::listen(config.listen).await.map_err(ServiceError::start)?;
        tracing::info!(%address, tls = tls.is_some(), "the API is listening");
        let api = Api::new(&config, sources, metrics);
        shell.answer(|stop| server::serve(listener, api, tls, stop)).await;
        Ok(())
    }
}
