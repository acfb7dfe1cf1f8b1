//! The service as a process of a cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    orbweaver_process::main::<orbweaver_frontier::service::FrontierService>()
}
