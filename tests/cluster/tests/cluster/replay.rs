//! Deduplication, with its log on the brokers, compared with an exact reference.

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::Orbweaver;
use serde_json::Value;

use crate::PATIENCE;

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn on_kafka_each_url_passes_exactly_once_also_when_the_index_is_gone() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("replay");
    let replay = |urls: &'static str| {
        Orbweaver::new(["replay", "--urls", urls, "--partitions", "2", "--brokers", &orbweaver_testkit::brokers()])
    };
    let kept = || Ok::<_, anyhow::Error>(replay("100000")?.arg("--out").arg(&out));
    for what in ["a first time", "with its index", "without its index"] {
        if what == "without its index" {
            std::fs::remove_dir_all(out.join("seen-0"))?;
        }
        let ended = kept()?.end(PATIENCE).await?;
        ended.expect(0, &[])?;
        let figures: Value = serde_json::from_str(&ended.stdout)?;
        ensure!(figures["false_positives"] == 0 && figures["false_negatives"] == 0, "{what}: {figures}");
        ensure!(figures["distinct"] == 35_000, "{what}: {figures}");
    }
    // The directory of another replay is not continued.
    replay("50000")?.arg("--out").arg(&out).end(PATIENCE).await?.expect(64, &["100000", "50000"])?;
    replay("20000")?.end(PATIENCE).await?.expect(0, &[])?;
    Ok(())
}
