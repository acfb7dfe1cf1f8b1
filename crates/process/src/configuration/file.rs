//! Reader of TOML files: sections of keys, each with its line number.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    SettingError,
    given::{Given, Origin, Raw},
};

/// Maximum useful nesting: `kafka.properties` and the dots of a property's name.
const MAX_DEPTH: usize = 16;

/// Reads a file. Anything that is not a value of a key is a fault with its line number.
pub(super) fn read(path: &Path, content: &[u8], given: &mut Vec<Given>, faults: &mut Vec<SettingError>) {
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => {
            let line = line_of(content, error.valid_up_to());
            faults.push(SettingError::of_file(path, Some(line), "this is not UTF-8"));
            return;
        }
    };
    // The error's own text shows the line, which may contain a secret.
    match DeTable::parse(text) {
        Ok(table) => {
            let mut read = vec![];
            let mut reader = Reader { path, content, given: &mut read, faults };
            for (section, value) in table.get_ref() {
                reader.section(section, value);
            }
            // Sorted by line, which is the order in which faults are reported.
            read.sort_by_key(|given| if let Origin::File { line, .. } = given.origin { line } else { 0 });
            given.extend(read);
        }
        Err(error) => {
            let line = error.span().map(|span| line_of(content, span.start));
            faults.push(SettingError::of_file(path, line, &format!("this is not TOML: {}", error.message())));
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    content: &'a [u8],
    given: &'a mut Vec<Given>,
    faults: &'a mut Vec<SettingError>,
}

type Name<'i> = Spanned<std::borrow::Cow<'i, str>>;

impl Reader<'_> {
    fn section(&mut self, name: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(name.get_ref(), table, 1),
            _ => self.fault(name.get_ref().as_ref(), value, "it is outside of any [section]; move it into one"),
        }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>, depth: usize) {
        for (name, value) in table {
            let path = format!("{prefix}.{}", name.get_ref());
            match value.get_ref() {
                DeValue::Table(_) if depth >= MAX_DEPTH => self.fault(&path, value, "it is nested too deeply"),
                DeValue::Table(table) => self.table(&path, table, depth + 1),
                DeValue::Array(array) => {
                    let texts: Option<Vec<String>> = array.iter().map(|value| scalar(value.get_ref())).collect();
                    match texts {
                        Some(texts) => self.give(path, value, Raw::List(texts)),
                        None => {
                            self.fault(&path, value, "allowed here is an array of texts or numbers, not nested");
                        }
                    }
                }
                single => match scalar(single) {
                    Some(text) => self.give(path, value, Raw::Scalar(text)),
                    None => self.fault(&path, value, "a text, number, boolean or array is allowed here"),
                },
            }
        }
    }

    fn give(&mut self, path: String, value: &Spanned<DeValue<'_>>, raw: Raw) {
        let origin = self.origin(value);
        self.given.push(Given { path, raw, origin });
    }

    fn fault(&mut self, path: &str, value: &Spanned<DeValue<'_>>, problem: &str) {
        let origin = self.origin(value);
        self.faults.push(SettingError::new(path, problem).at(origin));
    }

    fn origin(&self, value: &Spanned<DeValue<'_>>) -> Origin {
        Origin::File { path: self.path.to_owned(), line: line_of(self.content, value.span().start) }
    }
}

/// Returns a scalar as an environment variable would spell it.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(on) => Some(on.to_string()),
        _ => None,
    }
}

fn line_of(content: &[u8], position: usize) -> usize {
    let before = content.get(..position).unwrap_or(content);
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<Given>, Vec<String>) {
        let (mut given, mut faults) = (vec![], vec![]);
        read(Path::new("crawl.toml"), text.as_bytes(), &mut given, &mut faults);
        (given, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_value_has_its_line_and_dotted_names_are_one() {
        let text = "[kafka]\nbrokers = [\"a:1\",\n \"b:2\"]\nproperties.sasl.mechanism = 'PLAIN'\n\n[http]\nlisten = \"x\" # y\n";
        let (given, faults) = read_text(text);
        assert_eq!(faults, Vec::<String>::new());
        let shown: Vec<_> = given.iter().map(|given| format!("{} {}", given.path, given.origin)).collect();
        assert!(shown.contains(&"kafka.brokers crawl.toml:2".to_owned()), "{shown:?}");
        assert!(shown.contains(&"kafka.properties.sasl.mechanism crawl.toml:4".to_owned()), "{shown:?}");
        assert!(shown.contains(&"http.listen crawl.toml:7".to_owned()), "{shown:?}");
        let brokers = given.iter().find(|given| given.path == "kafka.brokers").unwrap();
        assert_eq!(brokers.raw, Raw::List(vec!["a:1".into(), "b:2".into()]));
    }

    #[test]
    fn what_is_no_value_of_a_key_is_a_fault_with_its_line() {
        for (text, said) in [
            ("x = 1", "crawl.toml:1"),
            ("[a]\nb = [[1]]", "crawl.toml:2"),
            ("[a]\nb = 2024-01-01", "crawl.toml:2"),
            ("[a]\n\nb = ", "crawl.toml:3"),
            ("[a]\nb = 1\nb = 2", "crawl.toml:3"),
        ] {
            let (_, faults) = read_text(text);
            assert!(faults.len() == 1 && faults[0].contains(said), "{text:?}: {faults:?}");
        }
    }

    #[test]
    fn a_broken_line_is_not_shown_since_a_secret_may_stand_there() {
        let (_, faults) = read_text("[cql]\npassword = \"hunter2");
        assert!(faults[0].contains("not TOML") && !faults[0].contains("hunter2"), "{faults:?}");
    }
}
