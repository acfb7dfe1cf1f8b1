//! Language of a text.

use isolang::Language;
use whatlang::Detector;

/// Maximum number of bytes that are examined.
const MAX_BYTES: usize = 16 << 10;

/// Returns the language of a text by its code of ISO 639-1, or 639-3 if it has no shorter one; `None` if in doubt.
pub(crate) fn detect(text: &str) -> Option<String> {
    let text = &text[..text.floor_char_boundary(MAX_BYTES)];
    let found = Detector::new().detect(text).filter(whatlang::Info::is_reliable)?;
    // Mandarin in particular; ISO 639-1 has the code of all kinds of Chinese.
    let code = if found.lang() == whatlang::Lang::Cmn { "zho" } else { found.lang().code() };
    let language = Language::from_639_3(code)?;
    Some(language.to_639_1().unwrap_or(code).to_owned())
}
