//! Records of one process on their way to one partition: they land in order, whatever happens to their sender.

use std::{sync::Arc, time::Duration};

use orbweaver_log::{Log, LogError, MemoryLog, Offset, Record};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::{gate::Gate, random::Random};

/// Maximum number of chunks per partition that land after their process was killed.
const CHUNKS_OF_THE_DEAD: usize = 3;

struct Chunk {
    records: Vec<Record>,
    lands_at: Instant,
    landed: oneshot::Sender<Result<Vec<Offset>, LogError>>,
}

/// A chunk in transit.
pub(super) struct Landing(oneshot::Receiver<Result<Vec<Offset>, LogError>>);

impl Landing {
    /// Waits until the chunk has landed; indefinitely if it never does.
    pub(super) async fn landed(self) -> Result<Vec<Offset>, LogError> {
        match self.0.await {
            Ok(landed) => landed,
            // The process was killed and cannot use the result.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Path to one partition.
pub(super) struct Lane {
    chunks: mpsc::UnboundedSender<Chunk>,
    last: Instant,
}

impl Lane {
    /// Opens the path to a partition for the process behind `gate`.
    pub(super) fn open(log: MemoryLog, (process, gate): (usize, Arc<Gate>), random: &mut Random) -> Self {
        let (chunks, mut waiting) = mpsc::unbounded_channel::<Chunk>();
        let mut left = random.index(CHUNKS_OF_THE_DEAD + 1);
        let mut part = random.split("part");
        tokio::spawn(async move {
            while let Some(mut chunk) = waiting.recv().await {
                sleep_until(chunk.lands_at).await;
                if !gate.sends().await {
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    if left == 0 {
                        chunk.records.truncate(part.index(chunk.records.len() + 1));
                    }
                }
                let sent = tracing::enabled!(tracing::Level::DEBUG).then(|| chunk.records.clone());
                let landed = log.append(chunk.records).await;
                if let (Some(sent), Ok(offsets)) = (sent, &landed) {
                    sent.iter().zip(offsets).for_each(|(record, offset)| show(process, *offset, record));
                }
                let _ = chunk.landed.send(landed);
            }
        });
        Self { chunks, last: Instant::now() }
    }

    /// Sends records. They take `delay`, but do not overtake earlier ones.
    pub(super) fn send(&mut self, records: Vec<Record>, delay: Duration) -> Landing {
        let (landed, landing) = oneshot::channel();
        self.last = self.last.max(Instant::now() + delay);
        // The lane ends only with its process; then there is no receiver.
        let _ = self.chunks.send(Chunk { records, lands_at: self.last, landed });
        Landing(landing)
    }
}

fn show(process: usize, offset: Offset, record: &Record) {
    let text = |bytes: &Option<bytes::Bytes>| bytes.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    tracing::debug!(process, topic_partition = %record.tp, offset, key = ?text(&record.key), value = ?text(&record.value), "landed");
}
