//! `orbweaver report`: reports on the results of a crawl.
//!
//! `report links` needs bounded memory for results of any size: a filter of fixed size selects the URLs that are broken or
//! redirect, and the links to them; these are sorted on disk, in a temporary directory. The result files are read
//! once for the documents and twice for the URLs.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | command line |
//! | `input` | lines of the result files (read by `results`) |
//! | `interest`, `gather`, `sorted` | selected URLs; the results they need; external sort |
//! | `classify`, `chains` | pure: meaning of an outcome, redirects to their end |
//! | `slow` | last fetches, slowest first |
//! | `sections`, `print` | sections; text, CSV and JSON lines |

pub mod args;
mod chains;
mod classify;
mod error;
mod gather;
mod input;
mod interest;
mod print;
mod sections;
mod slow;
mod sorted;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::atomic::AtomicBool,
};

use args::{Format, LinksArgs, ReportCommand, Section};
use error::ReportError;
use gather::{Files, Gathered, Notes, Source, gather};
use orbweaver_url::Policy;
use sections::Totals;
use serde::Deserialize;
use sorted::Temporary;

use crate::{exit::Failure, interrupt::interruptible, output::while_stdout_is_read, results::whole};

/// Runs a report.
///
/// # Errors
/// Fails if the results cannot be read or the report cannot be written, and with `--fail` if there are broken links.
pub fn run(command: &ReportCommand) -> Result<(), Failure> {
    let ReportCommand::Links(args) = command;
    let sections = args.sections();
    if args.format == Format::Csv && args.to.is_none() && sections.len() > 1 {
        let message = "--format csv has one table: give --only SECTION, or --to DIR for a file per section";
        return Err(Failure::Usage(message.to_owned()));
    }
    if args.fail && !sections.contains(&Section::Broken) {
        return Err(Failure::Usage("--fail requires the section broken: add it to --only".to_owned()));
    }
    let args = args.clone();
    let fail = args.fail;
    let totals = interruptible(move |stop| report_to_stdout(&args, stop))?;
    match totals.broken {
        1 if fail => Err(Failure::Found("1 URL is broken".to_owned())),
        broken if broken > 0 && fail => Err(Failure::Found(format!("{broken} URLs are broken"))),
        _ => Ok(()),
    }
}

/// Writes the report to stdout. A reader that leaves early ends it.
fn report_to_stdout(args: &LinksArgs, stop: &AtomicBool) -> Result<Totals, Failure> {
    let mut result = Ok(Totals::default());
    while_stdout_is_read(|out| match report(args, stop, out) {
        Err(ReportError::Write(error)) => Err(error),
        other => {
            result = other;
            Ok(())
        }
    })?;
    Ok(result?)
}

/// Writes the report to `out`.
fn report(args: &LinksArgs, stop: &AtomicBool, out: &mut dyn Write) -> Result<Totals, ReportError> {
    let policy = policy(&args.dir, args.canonical)?;
    let source = Source { policy, stop };
    let files = Files::find(&args.dir)?;
    let temporary = Temporary::create(args.temp.as_deref().unwrap_or(&args.dir))?;
    let gathered = gather(source, &files, &temporary, args)?;
    notice_peculiarities(&gathered.notes, policy);
    let mut totals = Totals::default();
    print(args, (source, &gathered), out, &mut totals)?;
    Ok(totals)
}

/// Prints all sections: to `out`, or to files and only the summary to `out`.
fn print(
    args: &LinksArgs,
    results: (Source<'_>, &Gathered),
    out: &mut dyn Write,
    totals: &mut Totals,
) -> Result<(), ReportError> {
    let sections = args.sections();
    for section in &sections {
        match &args.to {
            None => {
                let mut printer = print::printer(args.format, *section, Box::new(&mut *out));
                sections::print(*section, results, &mut *printer, totals)?;
            }
            Some(dir) => {
                let path = dir.join(format!("{}.{}", section.name(), args.format.extension()));
                let failed = |source| ReportError::Output { path: path.clone(), source };
                let file = fs::create_dir_all(dir).and_then(|()| File::create(&path)).map_err(failed)?;
                let mut printer = print::printer(args.format, *section, Box::new(file));
                match sections::print(*section, results, &mut *printer, totals) {
                    Err(ReportError::Write(source)) => return Err(failed(source)),
                    printed => printed?,
                }
            }
        }
    }
    if args.format == Format::Text || args.to.is_some() {
        print::summary(&sections, totals, out)?;
    }
    Ok(())
}

/// Returns the policy of the crawl: that of its settings, if it has some.
fn policy(dir: &Path, given: Option<Policy>) -> Result<Policy, ReportError> {
    #[derive(Deserialize)]
    struct Settings {
        #[serde(default)]
        canonical: Policy,
    }
    let stored = whole(dir.join("state/crawl.json"))?.map(|settings: Settings| settings.canonical);
    match (stored, given) {
        (Some(stored), Some(given)) if stored != given => Err(ReportError::Policy(stored.to_string())),
        (stored, given) => Ok(stored.or(given).unwrap_or_default()),
    }
}

/// Prints what limits the report.
fn notice_peculiarities(notes: &Notes, policy: Policy) {
    let Notes { documents, truncated, foreign, is_cut } = *notes;
    if is_cut {
        notice!("the last line of the results is incomplete and was skipped: the crawl is running or was killed");
    }
    if truncated > 0 {
        notice!("{truncated} of {documents} documents lack links of their page, which exceeds a limit");
    }
    if foreign > 0 {
        notice!(
            "{foreign} of {documents} documents have another canonical URL under the policy `{policy}`, and links may be \
             missing: give the policy of the crawl with --canonical"
        );
    }
}
