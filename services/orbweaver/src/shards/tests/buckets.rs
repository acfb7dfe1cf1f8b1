//! Exports to a store, in comparison with those to a directory.

use std::{io::Write as _, sync::Arc};

use futures::{FutureExt as _, TryStreamExt as _};
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use orbweaver_bucket::faulty::{Fault, Faulty, Objects};

use super::*;
use crate::shards::{manifest::Shard, sink::MANIFEST};

/// Parts of which some shards of the tests have several.
const PART_BYTES: usize = 220;
const SHARD_BYTES: u64 = 500;

/// A bucket with an export of the results.
struct Remote<'a> {
    setup: &'a Setup,
    to: Destination,
    objects: Arc<Objects>,
}

impl<'a> Remote<'a> {
    fn new(setup: &'a Setup) -> Self {
        let to = Destination::parse("s3://results/docs".into()).unwrap();
        Self { setup, to, objects: Arc::default() }
    }

    fn on<'b>(&'b self, store: &Arc<Faulty>, stop: &'b AtomicBool) -> Bucket<'b> {
        Bucket::on((Arc::<Faulty>::clone(store), PART_BYTES), &self.to, stop).unwrap()
    }

    /// Exports with a fault, until that is noticed; returns the number of requests.
    fn export(&self, fault: Fault, stop: &AtomicBool) -> (Result<BTreeMap<Kind, Counts>, ShardsError>, usize) {
        let store = Faulty::new(&self.objects, fault);
        let run = Run { to: &self.to, shard_bytes: SHARD_BYTES, stop };
        let files = Source::ALL.map(|source| (source, Lines::find(&self.setup.results(""), source.file()).unwrap()));
        let exported = export_to(&self.on(&store, stop), run, self.selection(), &files);
        (exported, store.requests())
    }

    fn selection(&self) -> Selection {
        self.setup.args(&[]).selection().unwrap()
    }

    /// Returns the content of all objects below the prefix.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let objects = async {
            let found: Vec<_> = self.objects.memory.list(None).try_collect().await.unwrap();
            let mut files = BTreeMap::new();
            for object in found {
                let content = self.objects.memory.get(&object.location).await.unwrap().bytes().await.unwrap();
                let name = object.location.as_ref().strip_prefix("docs/").unwrap().to_owned();
                files.insert(name, content.to_vec());
            }
            files
        };
        objects.now_or_never().unwrap()
    }

    fn manifest(&self) -> Option<Manifest> {
        self.files().get(MANIFEST).map(|text| serde_json::from_slice(text).unwrap())
    }

    /// Checks that the shards that the manifest names are complete, which must be so at any time.
    fn check_named(&self) {
        let files = self.files();
        let named: Vec<Shard> =
            self.manifest().into_iter().flat_map(|manifest| manifest.kinds).flat_map(|(_, kind)| kind.shards).collect();
        for shard in named {
            assert_eq!(sha256(&files[&shard.file]), shard.sha256, "{}", shard.file);
        }
    }

    /// Checks that the objects are the files of an export to a directory, and that no upload is incomplete except for
    /// those whose id was lost, which have no parts.
    fn check_same_as(&self, expected: &Setup) {
        let (mut files, mut expected_files) = (self.files(), expected.files());
        assert_eq!(self.manifest().unwrap(), expected.manifest());
        files.remove(MANIFEST);
        expected_files.remove(MANIFEST);
        assert_eq!(files, expected_files);
        let uploads = self.objects.uploads.lock().unwrap();
        assert!(uploads.values().all(|parts| *parts == 0), "{uploads:?}");
    }
}

/// Returns results with an export to a directory.
fn reference() -> Setup {
    let setup = Setup::of(12, 12);
    let run = Run { to: &setup.args(&[]).to, shard_bytes: SHARD_BYTES, stop: &AtomicBool::new(false) };
    let files = Source::ALL.map(|source| (source, Lines::find(&setup.results(""), source.file()).unwrap()));
    let selection = setup.args(&[]).selection().unwrap();
    export_to(&Directory::open(&setup.out()).unwrap(), run, selection, &files).unwrap();
    setup
}

static RUNNING: AtomicBool = AtomicBool::new(false);

#[test]
fn an_export_to_a_bucket_has_the_files_of_one_to_a_directory() {
    let setup = reference();
    let remote = Remote::new(&setup);
    let (exported, _) = remote.export(Fault::None, &RUNNING);
    let shards: usize = exported.unwrap().values().map(|counts| counts.shards).sum();
    remote.check_same_as(&setup);
    let in_parts = remote.objects.begun.load(Ordering::Relaxed);
    assert!(0 < in_parts && in_parts < shards, "{in_parts} of {shards} shards have parts");
    let exported = remote.export(Fault::None, &RUNNING).0.unwrap();
    assert!(exported.values().all(|counts| counts.new_records == 0 && counts.records > 0));
    remote.check_same_as(&setup);
}

#[test]
fn an_export_to_a_bucket_that_is_killed_at_any_request_continues_to_the_same_objects() {
    let setup = reference();
    let killed = (0..).take_while(|step| {
        let remote = Remote::new(&setup);
        let (exported, _) = remote.export(Fault::KilledAt(*step), &RUNNING);
        remote.check_named();
        remote.export(Fault::None, &RUNNING).0.unwrap();
        remote.check_same_as(&setup);
        exported.is_err()
    });
    assert!(killed.count() > 50);
}

#[test]
fn an_export_whose_request_has_no_response_succeeds_or_continues_to_the_same_objects() {
    let setup = reference();
    let last = Remote::new(&setup).export(Fault::None, &RUNNING).1;
    let mut succeeded = 0;
    for request in 0..last {
        let remote = Remote::new(&setup);
        match remote.export(Fault::LostResponse(request), &RUNNING).0 {
            Ok(_) => succeeded += 1,
            Err(_) => {
                remote.check_named();
                // The run itself has removed its unfinished shards, unless it could not know that it has the claim.
                remote.export(Fault::None, &RUNNING).0.unwrap();
            }
        }
        remote.check_same_as(&setup);
    }
    // Each shard has a manifest.
    assert!(succeeded > 10, "{succeeded} of {last}");
}

#[test]
fn an_error_removes_the_unfinished_shards_at_once() {
    let setup = reference();
    let remote = Remote::new(&setup);
    setup.append("documents.jsonl", b"{}\n");
    remote.export(Fault::None, &RUNNING).0.unwrap_err();
    remote.check_named();
    let named: usize = remote.manifest().unwrap().kinds.values().map(|exported| exported.shards.len()).sum();
    assert_eq!(remote.files().len(), named + 1);
    assert!(remote.objects.uploads.lock().unwrap().is_empty());
}

#[test]
fn a_manifest_that_was_written_by_a_repeated_request_is_recognized() {
    let setup = reference();
    let remote = Remote::new(&setup);
    remote.export(Fault::Repeated, &RUNNING).0.unwrap();
    remote.check_same_as(&setup);
}

#[test]
fn a_later_run_ends_an_earlier_one_which_then_changes_nothing() {
    let setup = reference();
    let remote = Remote::new(&setup);
    let store = Faulty::new(&remote.objects, Fault::None);
    let earlier = remote.on(&store, &RUNNING);
    let manifest = begin(&earlier, &remote.to, remote.selection()).unwrap();
    let name = Kind::Documents.shard(0);
    let shards = [1, 2].map(|size| {
        let mut shard = earlier.create(&name).unwrap();
        shard.write_all(&vec![b'x'; size * PART_BYTES - 1]).unwrap();
        shard
    });
    remote.export(Fault::None, &RUNNING).0.unwrap();
    let files = remote.files();
    for shard in shards {
        assert!(earlier.publish(shard, &name).unwrap_err().to_string().contains("another process"));
    }
    assert!(earlier.remove(&name).unwrap_err().to_string().contains("another process"));
    assert!(earlier.save(&manifest).unwrap_err().to_string().contains("manifest.json: another process"));
    assert_eq!(remote.files(), files);
}

#[test]
fn of_two_runs_that_create_an_export_one_succeeds() {
    let setup = reference();
    let remote = Remote::new(&setup);
    let store = Faulty::new(&remote.objects, Fault::None);
    let (first, second) = (remote.on(&store, &RUNNING), remote.on(&store, &RUNNING));
    assert!(first.load().unwrap().is_none() && second.load().unwrap().is_none());
    let manifest = Manifest::new(remote.selection());
    first.save(&manifest).unwrap();
    assert_eq!(code(second.save(&manifest).unwrap_err()), 73);
}

#[test]
fn a_prefix_with_other_objects_is_refused_and_stays_as_it_is() {
    let setup = reference();
    let remote = Remote::new(&setup);
    remote.objects.memory.put(&"docs/notes.txt".into(), "of another program".into()).now_or_never().unwrap().unwrap();
    let error = remote.export(Fault::None, &RUNNING).0.unwrap_err();
    assert_eq!(error.to_string(), "s3://results/docs: it is not empty and has no export; give another destination");
    assert_eq!((code(error), remote.files().len()), (73, 1));
}

#[test]
fn shards_in_a_bucket_have_a_limit() {
    let setup = Setup::of(1, 1);
    let mut args = setup.args(&["--shard-bytes", "65GiB"]);
    args.selection().unwrap();
    args.to = Destination::parse("s3://results/docs".into()).unwrap();
    assert_eq!(args.selection().unwrap_err().to_string(), "--shard-bytes: at most 64GiB in a bucket");
}
