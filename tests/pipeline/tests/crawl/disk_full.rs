//! A full disk yields a clear error, and the crawl resumes once there is space.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use orbweaver_pipeline_tests::{Orbweaver, Output, check};
use orbweaver_toyweb::WebConfig;

use crate::{PATIENCE, serve};

/// A small temporary file system; unmounted on drop.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(dir: &'a Path, options: &str) -> Option<Self> {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "orbweaver-test"]).arg(dir).output();
        mount.is_ok_and(|mount| mount.status.success()).then_some(Self(dir))
    }

    fn resize(&self, options: &str) -> Result<()> {
        let mount = Command::new("mount").args(["-o", options]).arg(self.0).output()?;
        ensure!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr));
        Ok(())
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        // Lazily, so that nothing is left behind even if a process still holds a file.
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_is_a_clear_error_and_the_crawl_goes_on_when_there_is_room() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let Some(disk) = Small::mount(dir.path(), "size=24m") else {
        eprintln!("skipped: mounting a small file system needs root");
        return Ok(());
    };
    let web = serve(WebConfig { seed: 9, pages: 1_500, bytes: 40_000, address_hosts: 4, ..WebConfig::default() })?;
    let (out, truth) = (dir.path().join("x.crawl"), web.truth());
    let command = || Orbweaver::crawl(web.start_url(), &out, "--html");
    let full = command()?.end(PATIENCE).await?;
    ensure!(matches!(full.code, Some(73 | 74)), "exit code {:?}; it said:\n{}", full.code, full.stderr);
    ensure!(full.stderr.to_lowercase().contains("no space left"), "stderr does not report it:\n{}", full.stderr);
    ensure!(!full.stderr.contains("panicked"), "it panicked:\n{}", full.stderr);

    disk.resize("remount,size=2g")?;
    command()?.end(PATIENCE).await?.expect(0, &[])?;
    let output = Output::read(&out)?;
    output.ended_by("complete")?;
    check(&truth, &output)
}
