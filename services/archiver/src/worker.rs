//! Effects: jobs run on blocking threads, at most `threads` at a time.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use orbweaver_bucket::{Address, Store};
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::Millis;
use orbweaver_stage::{CpuMeter, Origin, Worker};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc::UnboundedSender},
};

use crate::{
    ArchiverConfig, ArchiverMetrics,
    disk::{self, OpenWarc},
    error::ArchiveError,
    job::{ArchiveDone, ArchiveJob, Archived, Checked, Closed, FileId, Size},
    location::location,
    page::Response,
    remote::Remote,
};

/// Worker that writes files on blocking threads.
#[derive(Debug)]
pub struct FileWorker {
    archive: Arc<Archive>,
    runtime: Handle,
    threads: Arc<Semaphore>,
    meter: Option<CpuMeter>,
}

impl FileWorker {
    /// Creates the directory of the archive if it does not exist, and a worker on the blocking threads of the caller's
    /// runtime.
    ///
    /// # Errors
    /// If the directory cannot be created, or the settings of the store are not valid.
    pub fn open(config: &ArchiverConfig, metrics: ArchiverMetrics) -> Result<Self, ArchiveError> {
        let remote = config.upload.as_deref().map(Remote::connect).transpose()?;
        Self::with_remote(config, metrics, remote)
    }

    /// Creates a worker, as [`FileWorker::open`] does, that uploads to this store in parts of this size.
    ///
    /// # Errors
    /// If the directory cannot be created, or the setting `upload` is no address.
    pub fn on_store(
        config: &ArchiverConfig,
        metrics: ArchiverMetrics,
        (store, part_bytes): (Store, usize),
    ) -> Result<Self, ArchiveError> {
        let address = config.upload.as_deref().map(str::parse::<Address>).transpose()?;
        Self::with_remote(config, metrics, address.map(|address| Remote::on(store, address, part_bytes)))
    }

    fn with_remote(
        config: &ArchiverConfig,
        metrics: ArchiverMetrics,
        remote: Option<Remote>,
    ) -> Result<Self, ArchiveError> {
        disk::create_directory(&config.directory)?;
        let archive = Archive {
            root: config.directory.clone(),
            remote,
            max_body_bytes: config.max_body_bytes,
            metrics,
            open: Mutex::default(),
        };
        let threads = Arc::new(Semaphore::new(config.threads.clamp(1, Semaphore::MAX_PERMITS)));
        Ok(Self { archive: Arc::new(archive), runtime: Handle::current(), threads, meter: None })
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn remote(&self) -> Option<Remote> {
        self.archive.remote.clone()
    }

    /// Adds the CPU time of the jobs to `meter`.
    #[must_use]
    pub fn with_meter(self, meter: CpuMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }
}

impl Worker<ArchiveJob, ArchiveDone> for FileWorker {
    fn start(&self, job: ArchiveJob, results: &UnboundedSender<ArchiveDone>) {
        let (archive, threads, results) = (Arc::clone(&self.archive), Arc::clone(&self.threads), results.clone());
        let meter = self.meter.clone();
        self.runtime.spawn(async move {
            // The semaphore is never closed; if it were, running the job without a limit would be better than not at
            // all.
            let _permit = threads.acquire_owned().await;
            let work = move || match meter {
                Some(meter) => meter.measure(|| archive.run(job)),
                None => archive.run(job),
            };
            let done = match tokio::task::spawn_blocking(work).await {
                Ok(done) => done,
                Err(ended) if ended.is_panic() => Err(ArchiveError::Panicked(ended.to_string())),
                // The runtime ends; then the result is not needed.
                Err(_) => return,
            };
            // A receiver that is gone belongs to a stage that has ended.
            let _ = results.send(done);
        });
    }
}

/// State shared by all jobs.
#[derive(Debug)]
struct Archive {
    root: PathBuf,
    remote: Option<Remote>,
    max_body_bytes: usize,
    metrics: ArchiverMetrics,
    /// Open files, without those of jobs in progress.
    open: Mutex<HashMap<FileId, Box<OpenWarc>>>,
}

impl Archive {
    fn run(&self, job: ArchiveJob) -> ArchiveDone {
        match job {
            ArchiveJob::Write { file, records, now } => {
                let start = Instant::now();
                let written = self.write(file, &records, now);
                self.metrics.write_seconds.observe(start.elapsed().as_secs_f64());
                written
            }
            ArchiveJob::Finish(file) => {
                let not_open = || ArchiveError::NotOpen(self.root.join(file.name.open_path()));
                let opened = self.open_files().remove(&file).ok_or_else(not_open)?;
                let closed = opened.finish(&self.root)?;
                Ok(Archived::Finished { file, closed })
            }
            ArchiveJob::Upload { file, closed } => self.upload(file, closed),
            ArchiveJob::Publish { file, is_stale } => {
                if !disk::publish(&self.root, &file.name)? {
                    if !is_stale {
                        return Err(ArchiveError::NotOpen(self.root.join(file.name.open_path())));
                    }
                    tracing::warn!(file = file.name.path(), "file deleted by the next owner of its partition");
                }
                Ok(Archived::Published(file))
            }
            ArchiveJob::Discard(file) => {
                let opened = self.open_files().remove(&file);
                opened.into_iter().for_each(|opened| opened.abandon());
                disk::discard(&self.root, &file.name, self.remote.as_ref())?;
                Ok(Archived::Cleaned)
            }
            ArchiveJob::Check(records) => {
                let check = |(origin, record): &(Origin, ConsumerRecord)| {
                    (*origin, Response::read(record, self.max_body_bytes).map(drop))
                };
                Ok(Archived::Checked(records.iter().map(check).collect()))
            }
            ArchiveJob::Recover(recoveries) => {
                // Before anything is archived, so that wrong credentials are noticed at the start.
                self.remote.as_ref().map_or(Ok(()), Remote::check)?;
                disk::recover(&self.root, self.remote.as_ref(), disk::open_files(&self.root)?, &recoveries)?;
                Ok(Archived::Cleaned)
            }
        }
    }

    fn upload(&self, file: FileId, closed: Closed) -> ArchiveDone {
        let Some(remote) = &self.remote else { return Ok(Archived::Uploaded { file, closed }) };
        if !disk::begin_upload(&self.root, &file.name)? {
            return Ok(Archived::Missing(file));
        }
        let start = Instant::now();
        let uploaded = remote.upload(&self.root, &file.name);
        self.metrics.upload_seconds.observe(start.elapsed().as_secs_f64());
        if !self.root.join(file.name.upload_path()).exists() {
            // The next owner of the partition has deleted it, and the object before this upload was over.
            remote.remove(&self.root, &file.name)?;
            return Ok(Archived::Missing(file));
        }
        uploaded.map(|()| Archived::Uploaded { file, closed })
    }

    fn write(&self, file: FileId, records: &[(Origin, ConsumerRecord)], now: Millis) -> ArchiveDone {
        let mut opened = self.open_files().remove(&file);
        let size = |opened: &Option<Box<OpenWarc>>| opened.as_ref().map_or(Size::default(), |opened| opened.size());
        let before = size(&opened).bytes;
        let mut results: Vec<Checked> = Vec::with_capacity(records.len());
        let mut locations = Vec::with_capacity(records.len());
        for (origin, record) in records {
            let result = match Response::read(record, self.max_body_bytes) {
                Ok(response) => {
                    let opened = match &mut opened {
                        Some(opened) => opened,
                        none => none.insert(Box::new(OpenWarc::create(&self.root, &file.crawl, &file.name, now)?)),
                    };
                    let written = opened.write(&response)?;
                    locations.extend(written.as_ref().ok().and_then(|written| location(&file, &response, written)));
                    written.map(drop)
                }
                Err(reason) => Err(reason),
            };
            results.push((*origin, result));
        }
        if before == 0 && results.iter().all(|(_, result)| result.is_err()) {
            // A file without responses has no entry.
            if let Some(opened) = opened.take() {
                opened.abandon();
                disk::discard(&self.root, &file.name, self.remote.as_ref())?;
            }
        }
        let size = size(&opened);
        self.metrics.file_bytes.inc_by(size.bytes.saturating_sub(before));
        if let Some(opened) = opened {
            self.open_files().insert(file.clone(), opened);
        }
        Ok(Archived::Written { file, records: results, locations, size })
    }

    fn open_files(&self) -> MutexGuard<'_, HashMap<FileId, Box<OpenWarc>>> {
        // A map of files has no state that a panic leaves half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
