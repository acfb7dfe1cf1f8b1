//! `orbweaver url`: canonical form, site, slot and fingerprint of URLs.

use std::io::{self, BufRead as _};

use orbweaver_url::{Keying, WideDomains, describe};

use crate::output::{json_line, to_stdout};
use crate::{cli::UrlArgs, exit::Failure};

/// Prints one JSON line per URL.
pub fn run(args: &UrlArgs) -> Result<(), Failure> {
    let wide = WideDomains::new(&args.wide_domain).map_err(|error| Failure::Usage(format!("--wide-domain {error}")))?;
    let keying = Keying { crawl: args.crawl.clone(), policy: args.canonical, wide };
    to_stdout(|out| {
        for url in &args.urls {
            if url != "-" {
                json_line(out, &describe(url, &keying))?;
                continue;
            }
            let mut input = io::BufReader::with_capacity(64 << 10, io::stdin().lock());
            let mut line = vec![];
            while input.read_until(b'\n', &mut line)? > 0 {
                let text = String::from_utf8_lossy(&line);
                json_line(out, &describe(text.trim_end_matches(['\n', '\r']), &keying))?;
                line.clear();
            }
        }
        Ok(())
    })
}
