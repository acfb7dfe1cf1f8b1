//! Check of free disk space (pure).

use std::path::Path;

use super::finding::Finding;
use crate::crawl::progress::bytes;

/// Returns the finding about the disk with a directory, from its free and total bytes; `None` if they are unknown.
#[must_use]
pub fn disk(directory: &Path, space: Option<(u64, u64)>) -> Finding {
    let Some((free, total)) = space.filter(|(_, total)| *total > 0) else {
        let advice = "give the directory of the services with --state-dir, on the machine that has it";
        return Finding::bad("disk", format!("the size of the disk with {} is unknown", directory.display()), advice);
    };
    let percent = u128::from(free) * 100 / u128::from(total);
    let seen = format!("{percent} % of {} free at {}", bytes(total), directory.display());
    let advice = "enlarge the disk, or delete other files there; a stopped service may lose its index, which it rebuilds from the log";
    match percent {
        0..10 => Finding::bad("disk", seen, advice),
        10..20 => Finding::warn("disk", seen, advice),
        _ => Finding::ok("disk", seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn less_than_a_tenth_free_is_bad_and_less_than_a_fifth_a_warning() {
        let level = |free| disk(Path::new("state"), Some((free, 1_000))).level;
        assert_eq!(
            [0, 99, 100, 199, 200, 1_000].map(level),
            [Level::Bad, Level::Bad, Level::Warn, Level::Warn, Level::Ok, Level::Ok]
        );
        assert_eq!(disk(Path::new("state"), None).level, Level::Bad);
        assert_eq!(disk(Path::new("state"), Some((u64::MAX, u64::MAX))).level, Level::Ok);
    }
}
