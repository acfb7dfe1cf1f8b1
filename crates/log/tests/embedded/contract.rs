//! The contract, with the default options and with small limits.

use orbweaver_log::{EmbeddedLog, Log, Options, contract};

async fn keeps_the_contract(options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let limit = options.record_limit;
    let log = EmbeddedLog::open(dir.path(), options, &contract::specs()).unwrap();
    assert_eq!(log.record_limit(), limit);
    contract::every_log(&log).await;
    contract::one_process(&log).await;
    log.close().unwrap();
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract() {
    keeps_the_contract(Options::default()).await;
}

#[tokio::test]
async fn the_embedded_log_keeps_the_contract_with_small_segments_and_records_and_few_open_files() {
    let options = Options { segment_bytes: 4 << 10, record_limit: 200_000, open_files: 2, ..Options::default() };
    keeps_the_contract(options).await;
}
