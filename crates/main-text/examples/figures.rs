//! Writes the text and the numbers of each block of a set of pages, as JSON lines: the input of `train/train.py`.
//!
//! `figures DIR > figures.jsonl` for the first forest; `figures DIR PROBABILITIES > surroundings.jsonl` for the second:
//! each line of the file `PROBABILITIES` has the `id` of a page and the `probabilities` of its blocks.

#[path = "set/mod.rs"]
mod set;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use orbweaver_main_text::Figures;
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or_else(|| io::Error::other("usage: figures DIR [PROBABILITIES]"))?;
    let known = arguments.get(1).map(|path| probabilities(Path::new(path))).transpose()?;
    let mut out = BufWriter::new(io::stdout().lock());
    for page in set::pages(Path::new(dir))? {
        let figures = match &known {
            Some(known) => Figures::surroundings(&page.html, known.get(&page.id).map_or(&[], Vec::as_slice)),
            None => Figures::of(&page.html),
        };
        // JSON values would hold the numbers as 64 bits each.
        let values: Vec<String> = figures.values.iter().map(f32::to_string).collect();
        let (id, texts) = (json!(page.id), json!(figures.texts));
        let (width, values) = (figures.width, values.join(","));
        writeln!(out, "{{\"id\":{id},\"texts\":{texts},\"width\":{width},\"values\":[{values}]}}")?;
    }
    out.flush()
}

fn probabilities(path: &Path) -> io::Result<HashMap<String, Vec<f32>>> {
    let mut known = HashMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let values = row["probabilities"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_f64).map(|value| value as f32).collect();
        known.insert(row["id"].as_str().unwrap_or_default().to_owned(), values);
    }
    Ok(known)
}
