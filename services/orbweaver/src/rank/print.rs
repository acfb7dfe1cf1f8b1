//! Ranked sites as text, CSV or JSON lines.

use std::io::{self, Write};

use serde::Serialize;

use super::weights::RankedSite;
use crate::{output::json_line, report::args::Format};

/// Number of sites as text, unless another one is given.
const TOP: usize = 20;

/// Site as it is printed; the names of the fields are the columns.
#[derive(Debug, Serialize)]
struct Row<'a> {
    position: usize,
    site: &'a str,
    rank: f64,
    weight: u32,
    links_in: u32,
    links_out: u32,
}

/// Prints the first sites.
pub(super) fn print(out: &mut dyn Write, sites: &[RankedSite], format: Format, top: Option<usize>) -> io::Result<()> {
    let top = top.unwrap_or(if format == Format::Text { TOP } else { usize::MAX });
    let mut rows = sites.iter().take(top).enumerate().map(|(index, site)| Row {
        position: index + 1,
        site: &site.site,
        rank: site.rank,
        weight: site.weight,
        links_in: site.links_in,
        links_out: site.links_out,
    });
    match format {
        Format::Jsonl => rows.try_for_each(|row| json_line(out, &row)),
        Format::Csv => {
            let mut table = csv::Writer::from_writer(out);
            // Names of sites begin with a letter or digit, or `[`: no spreadsheet evaluates them.
            rows.try_for_each(|row| table.serialize(row)).map_err(io::Error::other)?;
            table.flush()
        }
        Format::Text => {
            writeln!(out, "{:>6}  {:>10}  {:>6}  {:>6}  {:>6}  site", "", "rank", "weight", "in", "out")?;
            rows.try_for_each(|Row { position, site, rank, weight, links_in, links_out }| {
                writeln!(out, "{position:>6}  {rank:>10.3e}  {weight:>5}%  {links_in:>6}  {links_out:>6}  {site}")
            })
        }
    }
}
