//! `orbweaver robots`: the verdict of a robots.txt on URLs.

use std::path::PathBuf;

use clap::Args;

use super::read_input;
use crate::exit::Failure;
use crate::output::{json_line, to_stdout};

/// Arguments of `orbweaver robots`.
#[derive(Debug, Args)]
pub struct RobotsArgs {
    /// File with the robots.txt; `-` is stdin.
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// Product name or user agent of the crawler.
    #[arg(long, value_name = "NAME")]
    pub agent: String,
    /// URLs, or paths that begin with `/`.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
}

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
