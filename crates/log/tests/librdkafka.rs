//! What is done about a fault of librdkafka (`librdkafka/orbweaver_librdkafka.h`) is in what is built.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[test]
fn librdkafka_is_built_with_memory_that_is_filled() {
    // Links librdkafka, the marker with it.
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let marker = b"orbweaver: memory of librdkafka is filled";
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    // This test holds the marker once itself, librdkafka once a file.
    let found = program.windows(marker.len()).filter(|window| window == marker).count();
    let hint = "was it built outside of the repository, with other CPPFLAGS, or without `.cargo/config.toml`?";
    assert!(found > 2, "librdkafka {version} lacks crates/log/librdkafka: {hint}");
}

#[test]
fn another_librdkafka_is_asked_whether_it_still_needs_that() {
    let (_, version) = rdkafka::util::get_rdkafka_version();
    let todo = "is its issue 5280 mended? Then remove crates/log/librdkafka and what `.cargo/config.toml` says of it";
    assert_eq!(version, "2.12.1", "{todo}");
}
