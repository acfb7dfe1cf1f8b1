//! The background threads: one writes memtables as SSTables, the other compacts SSTables, so that a large compaction
//! delays no write.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{Builder, JoinHandle},
};

use orbweaver_url::Fingerprint;

use super::{
    sstable::{SsTable, SsTableReader, SsTableWriter},
    table_set::TableSet,
};

/// Number of entries after which a compaction checks whether its partition is still open.
const CHECK_INTERVAL: u64 = 65_536;

/// The threads of an index. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    to: Option<Sender<Arc<TableSet>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start() -> io::Result<Self> {
        let (to_write, write) = channel::<Arc<TableSet>>();
        let (to_compact, merge) = channel::<Arc<TableSet>>();
        let writer = Builder::new().name("seen-write".to_owned()).spawn(move || write_all(&write, &to_compact))?;
        let merger = Builder::new().name("seen-merge".to_owned()).spawn(move || merge_all(&merge))?;
        Ok(Self { to: Some(to_write), threads: vec![writer, merger] })
    }

    /// Requests that a table of this set be written.
    pub(crate) fn write(&self, table_set: &Arc<TableSet>) {
        let sent = self.to.as_ref().map(|to| to.send(table_set.clone()));
        if !matches!(sent, Some(Ok(()))) {
            table_set.fail("the writer thread has ended".to_owned());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Without a sender the first thread ends, and with it the sender of the second.
        self.to = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

fn write_all(jobs: &Receiver<Arc<TableSet>>, to_compact: &Sender<Arc<TableSet>>) {
    while let Ok(table_set) = jobs.recv() {
        match write(&table_set) {
            // The other thread ends after this one.
            Ok(()) => drop(to_compact.send(table_set)),
            Err(error) => table_set.fail(error.to_string()),
        }
    }
}

fn merge_all(jobs: &Receiver<Arc<TableSet>>) {
    while let Ok(table_set) = jobs.recv() {
        let mut merged = Ok(true);
        while matches!(merged, Ok(true)) && !table_set.is_closed() {
            merged = merge(&table_set, &table_set.to_compact());
        }
        if let Err(error) = merged
            && !table_set.is_closed()
        {
            table_set.fail(error.to_string());
        }
    }
}

/// Writes the oldest frozen memtable.
fn write(table_set: &TableSet) -> io::Result<()> {
    let Some(frozen) = table_set.next_frozen().filter(|_| !table_set.is_closed()) else { return Ok(()) };
    let mut entries: Vec<(Fingerprint, u16)> = frozen.entries.iter().map(|(key, depth)| (*key, *depth)).collect();
    entries.sort_unstable();
    let mut run = None;
    if !entries.is_empty() {
        let (path, number) = table_set.new_run();
        let mut writer = SsTableWriter::create(path, number, entries.len() as u64)?;
        for (fingerprint, depth) in entries {
            writer.push(fingerprint, depth)?;
        }
        run = Some(writer.finish()?);
    }
    table_set.was_written(run)
}

/// Compacts SSTables into one; of several entries of a fingerprint, the least depth remains. Returns `true` if SSTables
/// were compacted.
fn merge(table_set: &TableSet, runs: &[Arc<SsTable>]) -> io::Result<bool> {
    if runs.is_empty() {
        return Ok(false);
    }
    let (path, number) = table_set.new_run();
    let entries = runs.iter().map(|run| run.len()).sum();
    let mut writer = SsTableWriter::create(path, number, entries)?;
    let mut heads = runs.iter().map(|run| Head::of(run)).collect::<io::Result<Vec<_>>>()?;
    let mut written = 0u64;
    while let Some(least) = heads.iter().filter_map(|head| head.next).map(|(fingerprint, _)| fingerprint).min() {
        let mut depth = u16::MAX;
        for head in &mut heads {
            if let Some((_, known)) = head.next.filter(|(fingerprint, _)| *fingerprint == least) {
                depth = depth.min(known);
                head.advance()?;
            }
        }
        writer.push(least, depth)?;
        written += 1;
        if written.is_multiple_of(CHECK_INTERVAL) && table_set.is_closed() {
            return Ok(false);
        }
    }
    table_set.compacted(runs, writer.finish()?)?;
    Ok(true)
}

/// Read position in an SSTable that is being compacted.
struct Head {
    reader: SsTableReader,
    next: Option<(Fingerprint, u16)>,
}

impl Head {
    fn of(run: &SsTable) -> io::Result<Self> {
        let mut head = Self { reader: run.entries()?, next: None };
        head.advance()?;
        Ok(head)
    }

    fn advance(&mut self) -> io::Result<()> {
        self.next = self.reader.next_entry()?;
        Ok(())
    }
}
