//! Limits of the number of entries, and the report.

use std::ops::ControlFlow;

use crate::{Entry, Format, Report};

/// Destination of entries.
pub(crate) struct Output<'s> {
    sink: &'s mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
    max_entries: usize,
    entries: usize,
    too_long: usize,
    error: Option<String>,
}

impl<'s> Output<'s> {
    pub(crate) fn new(sink: &'s mut dyn FnMut(Entry<'_>) -> ControlFlow<()>, max_entries: usize) -> Self {
        Self { sink, max_entries, entries: 0, too_long: 0, error: None }
    }

    /// Passes an entry to the sink. Breaks at the limit of entries and if the sink stops.
    pub(crate) fn put(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        if self.entries >= self.max_entries {
            self.cut(format!("the file has more than {} entries", self.max_entries));
            return ControlFlow::Break(());
        }
        self.entries += 1;
        (self.sink)(entry)
    }

    /// Counts a URL that is too long.
    pub(crate) fn drop_too_long(&mut self) {
        self.too_long += 1;
    }

    /// Records that the file ended early. The first reason is kept.
    pub(crate) fn cut(&mut self, reason: impl Into<String>) {
        self.error.get_or_insert_with(|| reason.into());
    }

    /// Returns the report.
    pub(crate) fn report(self, format: Format) -> Report {
        let Self { entries, too_long, error, .. } = self;
        Report { format, entries, too_long, is_cut: error.is_some(), error }
    }
}
