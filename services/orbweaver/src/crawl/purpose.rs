//! Purposes of a crawl on the command line.

use orbweaver_messages::CrawlPurpose;

use crate::exit::Failure;

/// Values of the option `--purpose`, each with its description.
pub(crate) const ALL: [(Option<CrawlPurpose>, &str); 5] = [
    (Some(CrawlPurpose::Search), "A search index: refused by noindex, Content-Signal and Content-Usage"),
    (Some(CrawlPurpose::AiInput), "Input of AI models: refused by noai, TDM Reservation Protocol and both signals"),
    (Some(CrawlPurpose::AiTrain), "Training of AI models: refused as ai-input"),
    (Some(CrawlPurpose::Archive), "An archive: refused by noarchive"),
    (None, "None: all pages are kept"),
];

/// Returns the name of a value of the option.
pub(crate) fn name(purpose: Option<CrawlPurpose>) -> &'static str {
    purpose.map_or("none", CrawlPurpose::name)
}

/// Returns the purposes that were given; `None` if the option was not given.
///
/// # Errors
/// Fails if `none` was given with others.
pub(crate) fn given(given: &[Option<CrawlPurpose>]) -> Result<Option<Vec<CrawlPurpose>>, Failure> {
    let mut purposes: Vec<_> = given.iter().flatten().copied().collect();
    purposes.sort_unstable();
    purposes.dedup();
    if !purposes.is_empty() && given.contains(&None) {
        return Err(Failure::Usage("--purpose: expected `none` alone, or other purposes without it".to_owned()));
    }
    Ok((!given.is_empty()).then_some(purposes))
}

/// Returns the names of purposes for a message.
pub(crate) fn shown(purposes: &[CrawlPurpose]) -> String {
    let names: Vec<_> = purposes.iter().copied().map(CrawlPurpose::name).collect();
    if names.is_empty() { name(None).to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::crawl_args;

    #[test]
    fn purposes_are_given_as_a_list_or_one_by_one_and_none_stands_alone() {
        let read = |words: &[&str]| given(&crawl_args(words).purpose);
        assert_eq!(read(&["http://a.test/"]).unwrap(), None);
        let both = vec![CrawlPurpose::Search, CrawlPurpose::AiTrain];
        assert_eq!(read(&["--purpose", "ai-train,search,search"]).unwrap(), Some(both.clone()));
        assert_eq!(read(&["--purpose=ai-train", "--purpose=search"]).unwrap(), Some(both.clone()));
        assert_eq!(read(&["--purpose", "none"]).unwrap(), Some(vec![]));
        assert!(read(&["--purpose", "none,search"]).unwrap_err().to_string().contains("`none` alone"));
        assert_eq!((shown(&both).as_str(), shown(&[]).as_str()), ("search, ai-train", "none"));
    }
}
