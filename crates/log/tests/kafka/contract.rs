//! The guarantees of the traits.

use orbweaver_log::contract;

use crate::fixture::{config, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn kafka_keeps_the_promises_of_every_log() {
    with(config(), &contract::specs(), |log| async move { contract::every_log(&*log).await }).await;
}
