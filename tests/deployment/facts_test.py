"""How the code is read."""

import unittest

from consistency import facts

SERVICE = """
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frontier => "frontier",
            Self::Fetcher => "fetcher",
        }
    }
    pub const fn binary(self) -> &'static str {
        match self {
            Self::Frontier => "orbweaver-frontier",
            Self::Fetcher => "orbweaver-fetcher",
        }
    }
    pub const fn default_listen(self) -> &'static str {
        match self {
            Self::Frontier => "127.0.0.1:9462",
            Self::Fetcher => "127.0.0.1:9464",
        }
    }
"""
KEYS = """
const ALL: &[ServiceId] = &ServiceId::ALL;
const STORED: &[ServiceId] = &[ServiceId::Fetcher];
pub(super) const KEYS: &[Key] = &[
    Key::new(("kafka", "brokers"), Kind::Servers, ALL, "Brokers.").required(),
    Key::new(
        ("kafka", "properties.*"),
        Kind::Secret,
        ALL,
        "Properties.",
    )
    .secret(Secret::ByName),
    Key::new(("cql", "timeout"), Kind::Time(SECOND, 10 * MINUTE), STORED, "A time.").is("10s"),
    Key::new(("fetcher", "user_agent"), Kind::Text, STORED, "A name.").is(concat!("Orbweaver/", env!("X"))),
];

#[cfg(test)]
mod tests {}
"""


class ReadingTheCode(unittest.TestCase):
    def test_services_have_a_name_a_binary_and_a_port(self):
        services = facts.read_services(SERVICE)
        self.assertEqual(services["Fetcher"], facts.Service("fetcher", "orbweaver-fetcher", 9464))
        self.assertEqual(len(services), 2)

    def test_code_that_is_written_in_another_way_is_a_complaint_and_not_agreement(self):
        for changed in (SERVICE.replace("const fn binary", "fn binary"), SERVICE.replace('Self::Fetcher => "fetcher",', "")):
            with self.assertRaises(facts.Unreadable):
                facts.read_services(changed)
        services = facts.read_services(SERVICE)
        for changed in ("", KEYS.replace("Key::new(", "key("), KEYS.replace('("cql", "timeout")', 'CQL_TIMEOUT'), KEYS.replace("STORED,", "some(),")):
            with self.assertRaises(facts.Unreadable):
                facts.read_keys(changed, services)

    def test_keys_have_a_default_and_readers(self):
        keys = {key.path: key for key in facts.read_keys(KEYS, facts.read_services(SERVICE))}
        self.assertEqual(len(keys), 4)
        self.assertTrue(keys["kafka.brokers"].required)
        self.assertEqual(keys["kafka.brokers"].services, {"frontier", "fetcher"})
        self.assertEqual((keys["cql.timeout"].default, keys["cql.timeout"].services), ("10s", {"fetcher"}))
        self.assertEqual(keys["fetcher.user_agent"].default, "Orbweaver/")

    def test_secrets_are_the_keys_that_the_code_redacts(self):
        keys = {key.path: key for key in facts.read_keys(KEYS, facts.read_services(SERVICE))}
        self.assertEqual((keys["kafka.properties.*"].secret, keys["kafka.properties.*"].holds_secrets), ("ByName", True))
        self.assertEqual((keys["cql.timeout"].secret, keys["cql.timeout"].holds_secrets), ("Never", False))
        for changed in (KEYS.replace("Secret::ByName", "BY_NAME"), KEYS.replace(".secret(Secret::ByName)", ""), KEYS.replace("Kind::Secret", "SECRET")):
            with self.assertRaises(facts.Unreadable):
                facts.read_keys(changed, facts.read_services(SERVICE))
        names = 'const SECRET_NAMES: [&str; 2] = [\n    "password",\n    "pem",\n];'
        self.assertEqual(facts.read_secret_names(names), {"password", "pem"})
        for changed in ("", names.replace('    "pem",\n', "")):
            with self.assertRaises(facts.Unreadable):
                facts.read_secret_names(changed)

    def test_a_key_with_a_star_stands_for_any_name_but_none(self):
        key = facts.Key("kafka.properties.*", None, False, frozenset())
        self.assertTrue(key.matches("kafka.properties.sasl.password"))
        self.assertFalse(key.matches("kafka.properties.") or key.matches("kafka.properties") or key.matches("kafka.property"))

    def test_variables_name_keys_as_the_program_reads_them(self):
        self.assertEqual(facts.path_of("ORBWEAVER_KAFKA__PROPERTIES__SASL__PASSWORD"), "kafka.properties.sasl.password")
        self.assertEqual(facts.path_of("ORBWEAVER_RATE_LIMITER__MAX_DELAY"), "rate_limiter.max_delay")
        for foreign in ("ORBWEAVER_FETCHER_PORT", "KAFKA__BROKERS", "ORBWEAVER___X", "HOME"):
            self.assertIsNone(facts.path_of(foreign))

    def test_a_binary_is_built_with_tls_when_that_turns_on_all_that_it_requires(self):
        target = {"required-features": ["cluster"]}
        for features, built in (
            ({"tls": ["cluster"], "cluster": []}, True),
            ({"tls": ["all"], "all": ["cluster"], "cluster": ["dep:x"]}, True),
            ({"tls": ["dep:x"], "cluster": []}, False),
            ({"tls": [], "cluster": [], "default": ["cluster"]}, True),
            ({"cluster": []}, False),
            ({"cluster": [], "default": ["cluster"]}, False),
        ):
            self.assertEqual(facts.builds_with_tls({"features": features}, target), built, features)
        self.assertTrue(facts.builds_with_tls({"features": {"tls": ["tls"]}}, {}))

    def test_times_are_read_or_refused(self):
        self.assertEqual([facts.seconds(text) for text in ("500ms", "45s", "1m30s", "2h")], [0.5, 45, 90, 7200])
        for text in ("", "45", "s", "1 fortnight"):
            with self.assertRaises(ValueError):
                facts.seconds(text)


if __name__ == "__main__":
    unittest.main()
