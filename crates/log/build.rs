//! Refuses a build in which librdkafka lacks the workarounds of `librdkafka/orbweaver_librdkafka.h`:
//! `.cargo/config.toml` gives them to builds inside the repository alone (docs/adr/0035-librdkafka-flags.md).

use std::env;

const HEADER: &str = "orbweaver_librdkafka.h";

fn main() {
    println!("cargo::rerun-if-env-changed=CPPFLAGS");
    let flags = env::var("CPPFLAGS").unwrap_or_default();
    if env::var_os("CARGO_FEATURE_KAFKA").is_some() && !flags.contains(HEADER) {
        let path = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!(
            "cargo::error=librdkafka would be built without the workarounds for defects that end services: build inside \
             the repository, or set CPPFLAGS=\"-include {path}/librdkafka/{HEADER}\" (docs/adr/0020-librdkafka-5280.md)"
        );
    }
}
