//! Variables of the environment: `ORBWEAVER_SECTION__NAME`.

use std::ffi::OsString;

use super::{
    Fault,
    given::{Given, Origin, Raw},
};

const PREFIX: &str = "ORBWEAVER_";

/// Takes the variables that are ours: names that begin with `ORBWEAVER_` and have `__` in them. Others with this beginning are
/// not: Kubernetes sets `ORBWEAVER_FETCHER_PORT` and the like for every service. An empty one counts as not set.
pub(super) fn read(environment: &[(OsString, OsString)], given: &mut Vec<Given>, faults: &mut Vec<Fault>) {
    let mut ours: Vec<_> = environment.iter().filter_map(|(name, value)| Some((path(name)?, name, value))).collect();
    // The order in which a process finds its environment means nothing.
    ours.sort();
    for (path, name, value) in ours {
        let origin = Origin::Variable(name.to_string_lossy().into_owned());
        match value.to_str() {
            Some("") => {}
            Some(value) => given.push(Given { path, raw: Raw::Scalar(value.to_owned()), origin }),
            None => faults.push(Fault::new(path, "the value is not UTF-8").at(origin)),
        }
    }
}

/// The key that a variable names: what follows the prefix in lower case, with a dot for each `__`.
fn path(name: &OsString) -> Option<String> {
    let (section, rest) = name.to_str()?.strip_prefix(PREFIX)?.split_once("__")?;
    (!section.is_empty()).then(|| format!("{}.{}", section.to_lowercase(), rest.replace("__", ".").to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_double_underscore_are_ours() {
        let path = |name: &str| path(&name.into());
        assert_eq!(path("ORBWEAVER_KAFKA__BROKERS").as_deref(), Some("kafka.brokers"));
        assert_eq!(path("ORBWEAVER_RATE_LIMITER__MAX_DELAY").as_deref(), Some("rate_limiter.max_delay"));
        let nested = path("ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD");
        assert_eq!(nested.as_deref(), Some("kafka.properties.sasl.password"));
        for foreign in ["ORBWEAVER_FETCHER_SERVICE_HOST", "ORBWEAVER_TEST_BROKERS", "HOME", "ORBWEAVER___X", "X__Y"] {
            assert_eq!(path(foreign), None, "{foreign}");
        }
    }
}
