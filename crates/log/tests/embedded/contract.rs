//! The contract, under every sync policy and with different segment sizes.

use orbweaver_log::{EmbeddedLog, Options, SyncPolicy, contract};

async fn keeps_the_contract(options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let log = EmbeddedLog::open(dir.path(), options, &contract::specs()).unwrap();
    contract::every_log(&log).await;
    contract::one_process(&log).await;
    log.close().unwrap();
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract() {
    keeps_the_contract(Options::default()).await;
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract_with_small_segments_and_few_open_files() {
    keeps_the_contract(Options { segment_bytes: 4 << 10, open_files: 2, ..Options::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_log_keeps_the_contract_when_each_append_waits_for_the_disk() {
    keeps_the_contract(Options { sync: SyncPolicy::EachAppend, segment_bytes: 64 << 10, ..Options::default() }).await;
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract_when_it_never_waits_for_the_disk() {
    keeps_the_contract(Options { sync: SyncPolicy::Never, ..Options::default() }).await;
}
