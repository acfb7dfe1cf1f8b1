//! Merging of tables, in steps between the calls of a partition: no thread is needed, and no call takes long.

use std::{io, path::Path, sync::Arc};

use super::{
    keys::Order,
    states::States,
    table::{Cursor, Table, TableWriter},
};

/// Number of keys of ended URLs that are tolerated in any case.
const SPARE: u64 = if cfg!(test) { 8 } else { 65_536 };

/// Returns the position of the first of the tables that should be merged, all newer ones included; `None` if none should.
pub(super) fn first_to_merge(tables: &[Arc<Table>], states: &States) -> Option<usize> {
    let urls = |table: &Arc<Table>| table.keys(Order::Urls);
    if tables.iter().map(urls).sum::<u64>() > 2 * states.len() as u64 + SPARE {
        return Some(0);
    }
    let mut newer = 0;
    let merged = tables.iter().rev().take_while(|table| {
        // So each is larger than all newer ones together, and a key is written once more whenever their number doubles.
        let is_small = newer == 0 || urls(table) <= newer;
        newer += urls(table).max(1);
        is_small
    });
    Some(merged.count()).filter(|count| *count > 1).map(|count| tables.len() - count)
}

/// The keys of tables in one order, without repetitions.
#[derive(Debug)]
pub(super) struct MergedKeys {
    order: Order,
    cursors: Vec<Cursor>,
    last: Vec<u8>,
}

impl MergedKeys {
    pub(super) fn of(tables: &[Arc<Table>], order: Order) -> io::Result<Self> {
        let cursors = tables.iter().map(|table| table.seek(order, &[])).collect::<io::Result<_>>()?;
        Ok(Self { order, cursors, last: vec![] })
    }

    /// Passes the next key to `take`, unless it is the one before again. Returns `false` at the end.
    pub(super) fn next(&mut self, take: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        let keys = self.cursors.iter().enumerate().filter_map(|(number, cursor)| Some((cursor.key()?, number)));
        let Some((key, least)) = keys.min() else { return Ok(false) };
        if key != self.last {
            take(key)?;
            self.last.clear();
            self.last.extend_from_slice(key);
        }
        self.cursors[least].advance()?;
        Ok(true)
    }
}

#[derive(Debug)]
pub(super) struct Merge {
    tables: Vec<Arc<Table>>,
    writer: TableWriter,
    /// Remaining keys of the order that is merged; none once all are.
    keys: Option<MergedKeys>,
    /// Whether keys that are not current are left out.
    drops: bool,
    /// Number of keys in all orders of the tables.
    all_keys: u64,
}

impl Merge {
    /// Starts to merge tables into one of this number. If it `drops` keys, those that are not current are left out.
    pub(super) fn start(tables: Vec<Arc<Table>>, dir: &Path, number: u64, drops: bool) -> io::Result<Self> {
        let keys = Some(MergedKeys::of(&tables, Order::Urls)?);
        let all_keys = tables.iter().flat_map(|table| Order::ALL.map(|order| table.keys(order))).sum();
        Ok(Self { writer: TableWriter::create(dir, number)?, tables, keys, drops, all_keys })
    }

    /// Returns the number of keys in all orders of the tables, those that are merged already included.
    pub(super) fn all_keys(&self) -> u64 {
        self.all_keys
    }

    /// Merges up to `most` keys. Returns `true` when nothing is left to do.
    pub(super) fn step(&mut self, most: usize, states: &States) -> io::Result<bool> {
        let Self { tables, writer, keys, drops, .. } = self;
        for _ in 0..most {
            let Some(merged) = keys else { break };
            let order = merged.order;
            let is_left =
                merged.next(|key| if *drops && !states.has(order, key) { Ok(()) } else { writer.push(order, key) })?;
            if !is_left {
                let next = Order::ALL.get(order as usize + 1);
                *keys = next.map(|next| MergedKeys::of(tables, *next)).transpose()?;
            }
        }
        Ok(keys.is_none())
    }

    /// Completes the merged table, and returns it with those that it was merged from.
    pub(super) fn finish(self) -> io::Result<(Table, Vec<Arc<Table>>)> {
        Ok((self.writer.finish()?, self.tables))
    }
}
