//! `orbweaver robots`: the verdict of a robots.txt on URLs.

use super::read_input;
use crate::output::{json_line, to_stdout};
use crate::{cli::RobotsArgs, exit::Failure};

/// Prints one JSON line per URL.
pub fn run(args: &RobotsArgs) -> Result<(), Failure> {
    let robots = read_input(&args.file)?;
    to_stdout(|out| {
        for url in &args.urls {
            json_line(out, &orbweaver_politeness::robots::explain(&robots, &args.agent, url))?;
        }
        Ok(())
    })
}
