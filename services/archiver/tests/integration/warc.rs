//! Small reader of WARC files: one record per gzip member.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use flate2::bufread::GzDecoder;

/// A record of a file.
#[derive(Debug, Clone)]
pub(crate) struct WarcRecord {
    /// Fields of the record, by name.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) block: String,
}

impl WarcRecord {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Reads the content of a file.
pub(crate) fn records_of(bytes: &[u8]) -> Vec<WarcRecord> {
    let (mut rest, mut records) = (bytes, vec![]);
    while !rest.is_empty() {
        let mut member = GzDecoder::new(rest);
        let mut text = Vec::new();
        member.read_to_end(&mut text).unwrap();
        rest = member.into_inner();
        records.push(record(&String::from_utf8(text).unwrap()));
    }
    records
}

fn record(text: &str) -> WarcRecord {
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n");
    assert_eq!(lines.next(), Some("WARC/1.1"));
    let fields: BTreeMap<String, String> =
        lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.into(), value.into())).collect();
    let length: usize = fields["Content-Length"].parse().unwrap();
    assert_eq!(&rest[length..], "\r\n\r\n");
    WarcRecord { fields, block: rest[..length].to_owned() }
}

/// Returns the paths of all files below a directory, relative to it and in order.
pub(crate) fn files_below(root: &Path) -> Vec<String> {
    let mut files = vec![];
    for directory in fs::read_dir(root).unwrap() {
        let directory = directory.unwrap();
        for file in fs::read_dir(directory.path()).unwrap() {
            let (directory, file) = (directory.file_name(), file.unwrap().file_name());
            files.push(format!("{}/{}", directory.to_str().unwrap(), file.to_str().unwrap()));
        }
    }
    files.sort_unstable();
    files
}
