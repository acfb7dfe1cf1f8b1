//! Count of failed commits. No fault targets commits directly: they fail when a member was unavailable for too long or
//! while a broker is unavailable.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Log messages of a failed commit.
const SAID: [&str; 2] = [r#""message":"a commit was refused""#, r#""message":"closed without its last commit""#];

/// Counts the failed commits in the logs of all instances, each in its own directory below `instances`.
pub(crate) fn failed(instances: &Path) -> Result<u32> {
    let mut failed = 0;
    for dir in fs::read_dir(instances).with_context(|| format!("{}", instances.display()))? {
        let log = dir?.path().join("log");
        let mut lines = BufReader::new(File::open(&log).with_context(|| format!("{}", log.display()))?);
        let mut line = vec![];
        while lines.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            failed += u32::from(SAID.iter().any(|said| text.contains(said)));
            line.clear();
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_that_were_refused_or_never_came_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for (name, log) in [
            (
                "one",
                "{\"level\":\"WARN\",\"message\":\"a commit was refused\",\"error\":\"x\"}\n{\"message\":\"opened\"}\n",
            ),
            ("other", "not JSON\n{\"message\":\"closed without its last commit\"}"),
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("log"), log).unwrap();
        }
        assert_eq!(failed(dir.path()).unwrap(), 2);
    }
}
