//! Determines the git commit of the build.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=ORBWEAVER_GIT_HASH");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A container is built without .git and receives the commit in the environment. In development a rebuild per commit
    // would cost more than the hash is worth, and a stale hash would be wrong.
    let given = std::env::var("ORBWEAVER_GIT_HASH").ok().filter(|hash| !hash.is_empty());
    let hash = given.or_else(|| if release { of_git() } else { None });
    println!("cargo::rustc-env=ORBWEAVER_GIT={}", hash.as_deref().unwrap_or("unknown"));
}

fn of_git() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}
