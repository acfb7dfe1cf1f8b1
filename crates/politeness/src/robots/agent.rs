//! Product tokens.

/// Returns `true` for a byte of a product token.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Returns the product token of a user agent, in lower case: `orbweaver` for `Orbweaver/0.1 (+https://…)`. Empty
/// without one.
#[must_use]
pub fn agent_token(user_agent: &str) -> String {
    let name = user_agent.trim_start();
    let end = name.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(name.len());
    name[..end].to_ascii_lowercase()
}

/// Returns the agent that a `User-agent` line names: a token in lower case, or `*`; `None` if it names none.
pub(super) fn named_agent(value: &[u8]) -> Option<Box<str>> {
    if let [b'*', rest @ ..] = value {
        let alone = rest.first().is_none_or(|&next| !is_token_byte(next));
        return alone.then(|| "*".into());
    }
    let end = value.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(value.len());
    let token = std::str::from_utf8(&value[..end]).ok()?;
    (!token.is_empty()).then(|| token.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_the_first_product_name_of_the_user_agent() {
        assert_eq!(agent_token("Orbweaver/0.1 (+https://orbweaver.example/bot)"), "orbweaver");
        assert_eq!(agent_token("MJ12bot"), "mj12bot");
        assert_eq!(agent_token(" my_bot-x (y)"), "my_bot-x");
        assert_eq!(agent_token("/1.0"), "");
        assert_eq!(agent_token("Ünbot"), "");
    }

    #[test]
    fn a_line_names_a_token_everybody_or_nobody() {
        assert_eq!(named_agent(b"FooBot/1.2").as_deref(), Some("foobot"));
        assert_eq!(named_agent(b"Foo Bar").as_deref(), Some("foo"));
        assert_eq!(named_agent(b"*").as_deref(), Some("*"));
        assert_eq!(named_agent(b"*<BR>").as_deref(), Some("*"));
        assert_eq!(named_agent(b"*bot"), None);
        assert_eq!(named_agent(b""), None);
        assert_eq!(named_agent(b"\xff\xfe"), None);
    }
}
