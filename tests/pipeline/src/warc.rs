//! Reader of WARC files, as far as the tests need it.

use std::{collections::BTreeSet, io::Read as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use flate2::bufread::GzDecoder;

/// A response in an archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Archived {
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// Body, as it was stored.
    pub body: Vec<u8>,
    /// Whether it is a revisit, which has no body.
    pub is_revisit: bool,
}

/// Reads all responses of the files below `dir`, sorted; none if it does not exist.
///
/// # Errors
/// Names the file that is not whole, is still open, or has a record whose id occurs twice.
pub fn archived(dir: &Path) -> Result<Vec<Archived>> {
    let (mut found, mut ids) = (vec![], BTreeSet::new());
    let crawls = if dir.exists() { std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()? } else { vec![] };
    for crawl in crawls {
        for file in std::fs::read_dir(crawl.path())? {
            let path = file?.path();
            let name = path.display();
            ensure!(name.to_string().ends_with(".warc.gz"), "{name} is not a closed file");
            let bytes = std::fs::read(&path)?;
            let mut rest = &*bytes;
            while !rest.is_empty() {
                let mut decoder = GzDecoder::new(rest);
                let mut record = vec![];
                decoder.read_to_end(&mut record).with_context(|| format!("{name}: a record is not whole"))?;
                rest = decoder.into_inner();
                let (head, block) = split(&record).with_context(|| format!("{name}: a record has no header"))?;
                let id = field(&head, "WARC-Record-ID").context("a record has no id")?;
                ensure!(ids.insert(id.to_owned()), "{name}: {id} occurs twice");
                found.extend(response(&head, block).with_context(|| format!("{name}: {id}"))?);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the response of a record; `None` for a record of another type.
fn response(head: &str, block: &[u8]) -> Result<Option<Archived>> {
    let is_revisit = match field(head, "WARC-Type") {
        Some("response") => false,
        Some("revisit") => true,
        _ => return Ok(None),
    };
    let url = field(head, "WARC-Target-URI").context("no URL")?.to_owned();
    let length: usize = field(head, "Content-Length").context("no length")?.parse()?;
    ensure!(block.len() == length + 4, "its block has {} bytes and two line ends, not {length}", block.len());
    let (http, body) = split(&block[..length]).context("no HTTP header")?;
    let status = http.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Some(Archived { url, status, body: body.to_vec(), is_revisit }))
}

fn split(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
