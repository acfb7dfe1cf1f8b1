//! Exports that end at any step, as if they had been killed there.

use std::{
    cell::Cell,
    fs::File,
    io::{self, Write},
    rc::Rc,
};

use proptest::prelude::*;

use super::{
    super::sink::Sink,
    naive::{OPTIONS, Options},
    *,
};

/// A directory that fails after a number of steps: before or after an operation, or in the middle of a write.
struct Faulty<'a> {
    directory: &'a Directory,
    steps: Steps,
}

#[derive(Clone)]
struct Steps(Rc<Cell<usize>>);

struct FaultyFile {
    file: File,
    steps: Steps,
}

impl Steps {
    fn next(&self) -> io::Result<()> {
        let remaining = self.0.get().checked_sub(1).ok_or_else(|| io::Error::other("killed"))?;
        self.0.set(remaining);
        Ok(())
    }
}

impl Sink for Faulty<'_> {
    type File = FaultyFile;

    fn load(&self) -> Result<Option<Manifest>, ShardsError> {
        self.directory.load()
    }

    fn check_unused(&self) -> Result<(), ShardsError> {
        self.directory.check_unused()
    }

    fn claim(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        self.directory.claim(manifest)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(name)
    }

    fn create(&self, name: &str) -> io::Result<FaultyFile> {
        self.steps.next()?;
        let file = self.directory.create(name)?;
        self.steps.next()?;
        Ok(FaultyFile { file, steps: self.steps.clone() })
    }

    fn publish(&self, file: FaultyFile, name: &str) -> io::Result<()> {
        self.steps.next()?;
        self.directory.publish(file.file, name)?;
        self.steps.next()
    }

    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError> {
        let killed = |source| ShardsError::Output { output: "manifest".into(), source };
        self.steps.next().map_err(killed)?;
        self.directory.save(manifest)?;
        self.steps.next().map_err(killed)
    }
}

impl Write for FaultyFile {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.steps.next() {
            self.file.write_all(&text[..text.len() / 2])?;
            return Err(error);
        }
        self.file.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs an export for a number of steps; returns `true` if it ends before.
fn run_for(steps: usize, setup: &Setup, options: &[&str], shard_bytes: u64) -> bool {
    let args = setup.args(options);
    let selection = args.selection().unwrap();
    let directory = Directory::open(&setup.out()).unwrap();
    let mut manifest = begin(&directory, &args.to, selection.clone()).unwrap();
    check_files(setup);
    let sink = Faulty { directory: &directory, steps: Steps(Rc::new(Cell::new(steps))) };
    let stop = AtomicBool::new(false);
    let run = Run { to: &args.to, shard_bytes, stop: &stop };
    let is_wanted = |source: &Source| source.kinds().iter().any(|kind| selection.what.contains(kind));
    for source in Source::ALL.into_iter().filter(is_wanted) {
        let lines = Lines::find(&args.dir, source.file()).unwrap();
        match pass(run, (source, &lines), &sink, &mut manifest) {
            Ok(_) => {}
            Err(ShardsError::Output { source, .. }) if source.to_string() == "killed" => return false,
            Err(error) => panic!("{error}"),
        }
    }
    true
}

fn check(setup: &Setup, crawl: &Crawl, (options, is_selected): Options) {
    let what = setup.args(options).selection().unwrap().what;
    for (kind, expected) in [
        (Kind::Documents, crawl.documents(is_selected)),
        (Kind::Links, crawl.links(is_selected)),
        (Kind::Pages, crawl.pages(is_selected)),
    ] {
        let expected = if what.contains(&kind) { expected } else { vec![] };
        assert_eq!(setup.records(kind), expected, "{kind:?}");
    }
    // Also if the last lines are not selected: no run reads them again.
    let length = |name| fs::metadata(setup.results(name)).unwrap().len();
    let (documents, urls) = (length("documents.jsonl"), length("urls.jsonl"));
    for (kind, exported) in setup.manifest().kinds {
        let end = if kind == Kind::Pages { urls } else { documents };
        assert_eq!(exported.position.bytes, end, "{kind:?}");
    }
    check_files(setup);
}

/// Checks that the directory has only the files that the manifest names.
fn check_files(setup: &Setup) {
    let manifest = setup.manifest();
    let named = manifest.kinds.values().flat_map(|exported| &exported.shards).map(|shard| shard.file.clone());
    let mut named: Vec<_> = named.chain(["manifest.json".to_owned()]).collect();
    named.sort();
    assert_eq!(setup.files().into_keys().collect::<Vec<_>>(), named);
}

#[test]
fn an_export_that_is_killed_at_any_step_continues_to_the_same_files() {
    let crawl = naive::fixed(12, 12);
    let reference = Setup::of(12, 12);
    assert!(run_for(usize::MAX, &reference, &[], 500));
    check(&reference, &crawl, OPTIONS[0]);
    let manifest = reference.manifest();
    assert!(manifest.kinds.values().all(|exported| exported.shards.len() > 1), "{manifest:?}");
    let expected = reference.files();
    let killed = (0..).take_while(|steps| {
        let setup = Setup::of(12, 12);
        let is_killed = !run_for(*steps, &setup, &[], 500);
        assert!(run_for(usize::MAX, &setup, &[], 500));
        assert_eq!(setup.files(), expected, "killed after {steps} steps");
        is_killed
    });
    assert!(killed.count() > 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn an_export_while_the_results_grow_has_each_record_once(
        crawl in naive::crawl(),
        options in prop::sample::select(&OPTIONS[..]),
        shard_bytes in 1..6000u64,
        rounds in prop::collection::vec((any::<prop::sample::Index>(), 0..60usize), 0..8),
    ) {
        let setup = Setup::of(0, 0);
        let texts = [("documents.jsonl", lines(&crawl.documents)), ("urls.jsonl", lines(&crawl.urls))];
        let mut written = [0, 0];
        // In each round the results grow, then the export runs until it ends or is killed; in the last one to their end.
        let last = (None, usize::MAX);
        for (growth, steps) in rounds.into_iter().map(|(growth, steps)| (Some(growth), steps)).chain([last]) {
            for (written, (name, text)) in written.iter_mut().zip(&texts) {
                // Mostly in the middle of a line.
                let rest = text.len() - *written;
                let end = *written + growth.map_or(rest, |growth| growth.index(rest + 1));
                setup.append(name, &text[*written..end]);
                *written = end;
            }
            let is_complete = run_for(steps, &setup, options.0, shard_bytes);
            prop_assert!(is_complete || steps < usize::MAX);
        }
        check(&setup, &crawl, options);
    }
}
