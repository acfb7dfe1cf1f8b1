//! Bearer tokens, each known by its hash alone, and what they may do. Pure.

use std::{fmt, str::FromStr, sync::Arc};

use data_encoding::HEXLOWER_PERMISSIVE;
use sha2::{Digest as _, Sha256};

/// Maximum number of tokens.
const MAX_TOKENS: usize = 100;
/// Maximum length of the name of a token, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Name of a token without one.
const UNNAMED: &str = "token";

/// Requests that a token may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Requests that change nothing.
    Read,
    /// All requests, also those that change a crawl.
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Admin => "admin",
        })
    }
}

/// Token, or a client of this machine if none are required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: Arc<str>,
    pub(crate) scope: Scope,
}

impl Caller {
    /// Returns the caller of each request if no tokens are required.
    pub(crate) fn local() -> Self {
        Self { name: "local".into(), scope: Scope::Admin }
    }
}

/// SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hash([u8; 32]);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

impl FromStr for Hash {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

/// Tokens of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens(Vec<(Hash, Caller)>);

/// Text that does not describe tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The number of the entry.
    #[error(
        "entry {0}: expected the SHA-256 of a token as 64 hexadecimal digits, such as of `printf %s TOKEN | sha256sum`, or \
         `NAME SCOPE SHA256` with the scope `read` or `admin`"
    )]
    Entry(usize),
    /// The name is too long, or has other characters. It is not repeated, since it might be a token.
    #[error("entry {0}: the name of a token has 1 to {MAX_NAME_BYTES} of a-z, 0-9, `-` and `_`")]
    Name(usize),
    #[error("two tokens have the name `{0}`")]
    Twice(String),
    #[error("two tokens have the same hash: `{0}` and `{1}`")]
    SameHash(String, String),
    #[error("there are {0} tokens; allowed: 1 to {MAX_TOKENS}")]
    Count(usize),
}

impl FromStr for Tokens {
    type Err = TokensError;

    /// Reads entries that are separated by commas or line ends; `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, TokensError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let entries = lines.flat_map(|line| line.split(',')).filter(|entry| !entry.trim().is_empty());
        let mut tokens: Vec<(Hash, Caller)> = vec![];
        for (number, entry) in (1..).zip(entries) {
            let (hash, caller) = token(entry).ok_or(TokensError::Entry(number))?;
            let name = &*caller.name;
            let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
            if name.len() > MAX_NAME_BYTES || !name.bytes().all(is_allowed) {
                return Err(TokensError::Name(number));
            }
            if tokens.iter().any(|(_, known)| known.name == caller.name) {
                return Err(TokensError::Twice(name.to_owned()));
            }
            if let Some((_, known)) = tokens.iter().find(|(known, _)| *known == hash) {
                return Err(TokensError::SameHash(known.name.to_string(), name.to_owned()));
            }
            tokens.push((hash, caller));
        }
        if tokens.is_empty() || tokens.len() > MAX_TOKENS {
            return Err(TokensError::Count(tokens.len()));
        }
        Ok(Self(tokens))
    }
}

/// Reads an entry, after which `sha256sum` writes `-`. A hash alone may do everything.
fn token(entry: &str) -> Option<(Hash, Caller)> {
    let mut fields: Vec<&str> = entry.split_whitespace().collect();
    fields.pop_if(|last| *last == "-");
    let (name, scope, hash) = match fields[..] {
        [hash] => (UNNAMED, Scope::Admin, hash),
        [name, "read", hash] => (name, Scope::Read, hash),
        [name, "admin", hash] => (name, Scope::Admin, hash),
        _ => return None,
    };
    Some((hash.parse().ok()?, Caller { name: name.into(), scope }))
}

impl Tokens {
    /// Tokens of which none admits a request.
    pub(crate) const NONE: Self = Self(vec![]);

    /// Returns the token in the value of an `Authorization`. The time does not depend on the position of the first difference,
    /// or on the token.
    pub(crate) fn caller(&self, authorization: Option<&str>) -> Option<&Caller> {
        let (scheme, token) = authorization?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let given = Sha256::digest(token.trim().as_bytes());
        let is_equal = |Hash(hash): &Hash| {
            let difference = given.iter().zip(hash).fold(0, |difference, (is, expected)| difference | (is ^ expected));
            std::hint::black_box(difference) == 0
        };
        self.0.iter().fold(None, |found, (hash, caller)| if is_equal(hash) { Some(caller) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf %s secret | sha256sum`
    const OF_SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    /// `printf %s other | sha256sum`
    const OF_OTHER: &str = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

    fn name(tokens: &Tokens, authorization: &str) -> Option<String> {
        tokens.caller(Some(authorization)).map(|caller| format!("{} {}", caller.name, caller.scope))
    }

    #[test]
    fn only_the_token_is_admitted() {
        let tokens: Tokens = OF_SECRET.parse().unwrap();
        for admitted in ["Bearer secret", "bearer  secret"] {
            assert_eq!(name(&tokens, admitted).as_deref(), Some("token admin"));
        }
        for refused in ["Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "secret", ""] {
            assert_eq!(name(&tokens, refused), None, "{refused}");
        }
        assert_eq!((name(&tokens, &format!("Bearer {OF_SECRET}")), tokens.caller(None)), (None, None));
        assert_eq!(name(&Tokens::NONE, "Bearer secret"), None);
        assert!(!format!("{tokens:?}").contains("43"));
    }

    #[test]
    fn each_token_has_its_name_and_its_scope() {
        let text = format!("# readers\nsearch read {OF_SECRET}  -  # one\n\nops admin {},", OF_OTHER.to_uppercase());
        let tokens: Tokens = text.parse().unwrap();
        assert_eq!(name(&tokens, "Bearer secret").as_deref(), Some("search read"));
        assert_eq!(name(&tokens, "Bearer other").as_deref(), Some("ops admin"));
        assert!(Scope::Read < Scope::Admin && Caller::local().scope == Scope::Admin);
    }

    #[test]
    fn a_text_that_does_not_describe_tokens_is_refused_with_the_entry() {
        let error = |text: &str| text.parse::<Tokens>().unwrap_err();
        for text in ["secret", &OF_SECRET[1..], &format!("{OF_SECRET}00"), &format!("a write {OF_SECRET}"), "a read"] {
            assert_eq!(error(text), TokensError::Entry(1), "{text}");
        }
        assert_eq!(error(&format!("{OF_SECRET},x")), TokensError::Entry(2));
        assert_eq!(error(" \n# none"), TokensError::Count(0));
        assert_eq!(error(&format!("A read {OF_SECRET}")), TokensError::Name(1));
        assert_eq!(error(&format!("{OF_SECRET},{OF_OTHER}")), TokensError::Twice("token".to_owned()));
        let same = error(&format!("a read {OF_SECRET},b admin {OF_SECRET}"));
        assert_eq!(same, TokensError::SameHash("a".to_owned(), "b".to_owned()));
    }
}
