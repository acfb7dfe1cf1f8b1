//! Exports of small results, and of random ones that are killed at each step, in comparison with a computation in memory.

mod buckets;
mod faults;
mod naive;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::PathBuf,
    sync::atomic::AtomicBool,
};

use clap::Parser as _;
use naive::Crawl;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{pack::sha256, *};
use crate::cli::{Cli, Command};

/// Results of a crawl, and directory of an export.
struct Setup {
    dir: TempDir,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("crawl")).unwrap();
        Self { dir }
    }

    /// Creates results with these numbers of documents and pages.
    fn of(documents: usize, urls: usize) -> Self {
        let setup = Self::new();
        setup.append("documents.jsonl", &lines(&naive::fixed(documents, urls).documents));
        setup.append("urls.jsonl", &lines(&naive::fixed(documents, urls).urls));
        setup
    }

    fn results(&self, name: &str) -> PathBuf {
        self.dir.path().join("crawl").join(name)
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn append(&self, name: &str, text: &[u8]) {
        let path = self.results(name);
        File::options().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
    }

    fn args(&self, options: &[&str]) -> ExportArgs {
        let (results, out) = (self.results(""), self.out());
        let base = ["orbweaver", "export", results.to_str().unwrap(), "--to", out.to_str().unwrap()];
        match Cli::parse_from(base.iter().chain(options)).command {
            Command::Export(args) => args,
            _ => unreachable!("it is `export`"),
        }
    }

    fn export(&self, options: &[&str]) -> Result<BTreeMap<Kind, Counts>, ShardsError> {
        export(&self.args(options), &AtomicBool::new(false))
    }

    fn manifest(&self) -> Manifest {
        serde_json::from_slice(&fs::read(self.out().join("manifest.json")).unwrap()).unwrap()
    }

    /// Returns the records of a kind, and checks that the manifest describes the shards.
    fn records(&self, kind: Kind) -> Vec<Value> {
        let mut all = String::new();
        let Some(exported) = self.manifest().kinds.remove(&kind) else { return vec![] };
        let mut position = Default::default();
        for (number, shard) in exported.shards.iter().enumerate() {
            assert_eq!(shard.file, kind.shard(number));
            let packed = fs::read(self.out().join(&shard.file)).unwrap();
            assert_eq!((shard.bytes, &shard.sha256), (packed.len() as u64, &sha256(&packed)), "{}", shard.file);
            let before = all.len();
            // A reader that stops after the first frame.
            let mut frame = zstd::stream::read::Decoder::with_buffer(&*packed).unwrap().single_frame();
            frame.read_to_string(&mut all).unwrap();
            assert!(frame.finish().is_empty(), "{} has one frame", shard.file);
            assert_eq!(shard.uncompressed_bytes, (all.len() - before) as u64);
            assert_eq!(shard.records, all[before..].lines().count() as u64);
            assert!(all.ends_with('\n') && position <= shard.from && shard.from < shard.to, "{shard:?}");
            position = shard.to;
        }
        assert!(position <= exported.position);
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the content of all files of the export.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.out()).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
            .collect()
    }
}

fn lines(values: &[Value]) -> Vec<u8> {
    values.iter().flat_map(|value| format!("{value}\n").into_bytes()).collect()
}

fn code(error: ShardsError) -> u8 {
    Failure::from(error).code()
}

#[test]
fn an_export_has_all_results_and_a_run_over_nothing_new_changes_nothing() {
    let setup = Setup::of(30, 40);
    let counts = setup.export(&[]).unwrap();
    let crawl = naive::fixed(30, 40);
    assert_eq!(setup.records(Kind::Documents), crawl.documents);
    assert_eq!(setup.records(Kind::Pages), crawl.urls);
    assert_eq!(setup.records(Kind::Links), crawl.links(|_| true));
    let numbers = |kind| (counts[&kind].records, counts[&kind].new_records, counts[&kind].shards);
    assert_eq!((numbers(Kind::Documents), numbers(Kind::Pages)), ((30, 30, 1), (40, 40, 1)));
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(setup.out().join("manifest.json")).unwrap());
    let (files, manifest) = (setup.files(), inode());
    let counts = setup.export(&["--shard-bytes", "1GiB"]).unwrap();
    assert_eq!((counts[&Kind::Documents].new_records, counts[&Kind::Documents].records), (0, 30));
    assert_eq!((setup.files(), inode()), (files, manifest));
}

#[test]
fn a_shard_ends_once_it_has_its_size() {
    let setup = Setup::of(0, 0);
    let crawl = naive::fixed(50, 0);
    let document = |(number, document): (usize, &Value)| {
        let mut document = document.clone();
        document["text"] = json!("text ".repeat(20_000 + number));
        document
    };
    let documents: Vec<_> = crawl.documents.iter().enumerate().map(document).collect();
    setup.append("documents.jsonl", &lines(&documents));
    setup.export(&["--shard-bytes", "1MiB"]).unwrap();
    assert_eq!(setup.records(Kind::Documents), documents);
    let manifest = setup.manifest();
    let (last, full) = manifest.kinds[&Kind::Documents].shards.split_last().unwrap();
    let largest = documents.iter().map(|document| document.to_string().len() as u64 + 1).max().unwrap();
    assert!(full.len() > 1 && last.records > 0, "{manifest:?}");
    for shard in full {
        assert!((1 << 20..(1 << 20) + largest).contains(&shard.uncompressed_bytes), "{shard:?}");
    }
}

#[test]
fn a_last_line_that_is_incomplete_is_exported_once_it_is_complete() {
    let setup = Setup::of(3, 3);
    let more = naive::fixed(6, 3).documents.split_off(3);
    let text = lines(&more);
    setup.append("documents.jsonl", &text[..text.len() - 10]);
    assert_eq!(setup.export(&[]).unwrap()[&Kind::Documents].new_records, 5);
    setup.append("documents.jsonl", &text[text.len() - 10..]);
    assert_eq!(setup.export(&[]).unwrap()[&Kind::Documents].new_records, 1);
    assert_eq!(setup.records(Kind::Documents), naive::fixed(6, 3).documents);
}

#[test]
fn lines_that_a_resumed_crawl_replaces_are_not_exported() {
    let setup = Setup::of(3, 3);
    let kept = fs::metadata(setup.results("documents.jsonl")).unwrap().len();
    fs::create_dir(setup.results("state")).unwrap();
    let checkpoint = crate::export::Checkpoint { documents_bytes: kept, ..Default::default() };
    fs::write(setup.results("state/export.json"), serde_json::to_vec(&checkpoint).unwrap()).unwrap();
    setup.append("documents.jsonl", &lines(&naive::fixed(9, 0).documents[5..]));
    let counts = setup.export(&[]).unwrap();
    assert_eq!((counts[&Kind::Documents].records, counts[&Kind::Pages].records), (3, 0));
    // The crawl is resumed and completes.
    File::options().write(true).open(setup.results("documents.jsonl")).unwrap().set_len(kept).unwrap();
    setup.append("documents.jsonl", &lines(&naive::fixed(9, 0).documents[3..]));
    fs::remove_file(setup.results("state/export.json")).unwrap();
    setup.export(&[]).unwrap();
    assert_eq!(setup.records(Kind::Documents), naive::fixed(9, 0).documents);
}

#[test]
fn an_invalid_line_is_named_also_by_a_later_run() {
    let setup = Setup::of(3, 2);
    setup.export(&[]).unwrap();
    setup.append("urls.jsonl", &[b"{\"url\":\"a\"}\n".to_vec(), lines(&naive::fixed(0, 1).urls)].concat());
    let files = setup.files();
    for _ in 0..2 {
        let error = setup.export(&[]).unwrap_err();
        assert!(error.to_string().contains("urls.jsonl, line 3: missing field `time`"), "{error}");
        assert_eq!(code(error), 66);
        assert_eq!(setup.files(), files);
    }
}

#[test]
fn results_that_are_none_are_named_and_leave_no_directory() {
    let setup = Setup::new();
    let error = setup.export(&[]).unwrap_err();
    assert!(error.to_string().contains("documents.jsonl"), "{error}");
    assert_eq!(code(error), 66);
    assert!(!setup.out().exists());
}

#[test]
fn an_export_with_other_options_is_refused_and_their_order_is_of_no_account() {
    let setup = Setup::of(3, 3);
    setup.export(&["--status", "404,2xx", "--site", "b.test", "--site", "a.test", "--until", "2028-01-01"]).unwrap();
    let files = setup.files();
    setup.export(&["--until", "2028-01-01T00:00:00Z", "--site", "a.test,b.test", "--status", "2xx,404"]).unwrap();
    for options in [&[][..], &["--status", "404"], &["--what", "pages"]] {
        let error = setup.export(options).unwrap_err();
        let stored = "--what documents,links,pages --site a.test,b.test --status 404,2xx --until 2028-01-01T00:00:00Z";
        assert!(error.to_string().contains(stored), "{error}");
        assert_eq!(code(error), 64);
    }
    assert_eq!(setup.files(), files);
}

#[test]
fn pages_have_no_language_and_no_marks_of_near_duplicates() {
    for condition in [&["--language", "en"][..], &["--unique"]] {
        let setup = Setup::of(3, 3);
        assert_eq!(code(setup.export(&[condition, &["--what", "pages,links"]].concat()).unwrap_err()), 64);
        assert!(!setup.out().exists());
        let counts = setup.export(condition).unwrap();
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [Kind::Documents, Kind::Links]);
    }
}

#[test]
fn other_results_than_those_that_were_exported_are_refused() {
    let setup = Setup::of(9, 3);
    setup.export(&[]).unwrap();
    let files = setup.files();
    let shorter = lines(&naive::fixed(8, 0).documents);
    let mut other = lines(&naive::fixed(12, 0).documents);
    other[5] = b'X';
    for text in [shorter, other] {
        fs::write(setup.results("documents.jsonl"), text).unwrap();
        let error = setup.export(&[]).unwrap_err();
        assert!(error.to_string().contains("documents.jsonl is not the file that was exported"), "{error}");
        assert_eq!(code(error), 66);
        assert_eq!(setup.files(), files);
    }
}

#[test]
fn a_directory_with_other_files_is_refused_and_stays_as_it_is() {
    let setup = Setup::of(3, 3);
    fs::create_dir(setup.out()).unwrap();
    fs::write(setup.out().join("documents-00000.jsonl.zst"), "of another program").unwrap();
    assert_eq!(code(setup.export(&[]).unwrap_err()), 73);
    assert_eq!(setup.files().len(), 1);
    for manifest in ["{}", r#"{"format":2,"filter":{"sites":[],"status":[],"languages":[]},"kinds":{}}"#] {
        fs::write(setup.out().join("manifest.json"), manifest).unwrap();
        let error = setup.export(&[]).unwrap_err();
        assert!(error.to_string().contains("format"), "{error}");
        assert_eq!((code(error), setup.files().len()), (73, 2));
    }
}

#[test]
fn two_processes_cannot_export_to_a_directory() {
    let setup = Setup::of(3, 3);
    let _first = Directory::open(&setup.out()).unwrap();
    let error = setup.export(&[]).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    assert_eq!(code(error), 73);
}

#[test]
fn an_interrupted_export_removes_its_unfinished_shards() {
    let setup = Setup::of(3, 3);
    let error = export(&setup.args(&[]), &AtomicBool::new(true)).unwrap_err();
    assert_eq!(code(error), 75);
    assert_eq!(setup.files().into_keys().collect::<Vec<_>>(), ["manifest.json"]);
}

#[test]
fn shards_that_were_moved_elsewhere_are_not_exported_again() {
    let setup = Setup::of(3, 3);
    setup.export(&[]).unwrap();
    fs::remove_file(setup.out().join("documents-00000.jsonl.zst")).unwrap();
    setup.append("documents.jsonl", &lines(&naive::fixed(5, 0).documents[3..]));
    assert_eq!(setup.export(&[]).unwrap()[&Kind::Documents].new_records, 2);
    assert!(!setup.out().join("documents-00000.jsonl.zst").exists());
    assert!(setup.out().join("documents-00001.jsonl.zst").exists());
}
