//! Build information.

use prometheus::{IntGaugeVec, Opts, Registry};

/// Version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of the build; `unknown` for a build without git or a development build.
pub const GIT: &str = env!("ORBWEAVER_GIT");

/// Version and commit as printed by `--version`.
pub(crate) const VERSION_AND_GIT: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ORBWEAVER_GIT"), ")");

/// 1, labelled with service, version and commit. Alert when instances of one service differ for longer than a roll-out
/// takes.
pub const BUILD_INFO: &str = "orbweaver_build_info";

/// Registers [`BUILD_INFO`].
pub(crate) fn register(registry: &Registry, service: &str) -> Result<(), prometheus::Error> {
    let info = IntGaugeVec::new(Opts::new(BUILD_INFO, "Build of the process"), &["service", "version", "git"])?;
    info.with_label_values(&[service, VERSION, GIT]).set(1);
    registry.register(Box::new(info))
}
