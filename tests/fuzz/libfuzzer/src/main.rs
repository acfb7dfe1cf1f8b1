//! The fuzz target that `ORBWEAVER_FUZZ_TARGET` names, run by libFuzzer.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use orbweaver_fuzz_tests::{Target, target};

static TARGET: LazyLock<Target> =
    LazyLock::new(|| target(&std::env::var("ORBWEAVER_FUZZ_TARGET").unwrap_or_default()));

fuzz_target!(|data: &[u8]| TARGET(data));
