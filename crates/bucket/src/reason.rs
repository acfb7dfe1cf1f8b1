//! Errors of a store in a few words, without URLs and headers of requests.

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

/// Returns the cause of an error.
#[must_use]
pub fn reason(error: &object_store::Error) -> String {
    if let object_store::Error::NotImplemented { .. } = error {
        return error.to_string();
    }
    let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let http = causes(error).find_map(|cause| cause.downcast_ref::<HttpError>());
    match http.map(HttpError::kind) {
        Some(HttpErrorKind::Timeout) => "the store does not respond in time".to_owned(),
        Some(_) => format!("the store cannot be reached: {}", lower(&last)),
        None => refusal(&last).unwrap_or_else(|| lower(&last)),
    }
}

/// Returns an error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// Returns status, code and message of an error response.
fn refusal(text: &str) -> Option<String> {
    if text.starts_with("Received redirect without LOCATION") {
        return Some("the store redirects elsewhere; check AWS_REGION".to_owned());
    }
    let (_, response) = text.split_once("status code: ")?;
    let (status, body) = response.split_once(": ").unwrap_or((response.trim_end_matches(": "), ""));
    let code = element(body, "Code");
    let advice = match code {
        Some("NoSuchBucket") => return Some("there is no such bucket".to_owned()),
        _ if status.starts_with("401") || status.starts_with("403") => {
            "; check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) and their permissions"
        }
        _ => "",
    };
    let code = code.map(|code| format!(", {code}")).unwrap_or_default();
    let message = element(body, "Message")
        .map(|message| format!(" ({})", unescaped(message).trim().trim_end_matches('.')))
        .unwrap_or_default();
    Some(format!("the store answered {status}{code}{message}{advice}"))
}

/// Returns the text of an element of an error response.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    (!text.is_empty()).then_some(text)
}

/// Replaces the references to characters that have to be escaped in an element.
fn unescaped(text: &str) -> String {
    // The ampersand comes last, so that nothing is replaced twice.
    const REFERENCES: [(&str, &str); 7] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    REFERENCES.into_iter().fold(text.to_owned(), |text, (reference, c)| text.replace(reference, c))
}

/// Returns a text that begins with a lower-case letter.
fn lower(text: &str) -> String {
    let mut chars = text.chars();
    let is_word = text.chars().nth(1).is_some_and(char::is_lowercase);
    match chars.next() {
        Some(first) if is_word => first.to_lowercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_store_is_shown_without_escapes() {
        let response = "status code: 400 Bad Request: <Error><Code>Malformed</Code><Message>the region \
            &#34;a&quot; &amp;lt; &lt;b&gt; isn&apos;t &#39;c&#39;.</Message></Error>";
        let shown = "the store answered 400 Bad Request, Malformed (the region \"a\" &lt; <b> isn't 'c')";
        assert_eq!(refusal(response).as_deref(), Some(shown));
    }
}
