//! Service process in a cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    orbweaver_process::main::<orbweaver_normalizer_dedup::service::NormalizerDedupService>()
}
