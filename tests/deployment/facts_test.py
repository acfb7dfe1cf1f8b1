"""How the code is read."""

import unittest

from consistency import facts

REFERENCE = {
    "services": {"frontier": "127.0.0.1:9462", "fetcher": "127.0.0.1:9464"},
    "keys": {
        "kafka.brokers": {"required": True, "default": None, "secret": None, "services": ["frontier", "fetcher"]},
        "kafka.properties.*": {"required": False, "default": None, "secret": "name", "services": ["frontier", "fetcher"]},
        "cql.timeout": {"required": False, "default": "10s", "secret": None, "services": ["fetcher"]},
    },
}


class ReadingTheCode(unittest.TestCase):
    def test_services_have_a_name_a_binary_and_a_port(self):
        services = facts.read_services(REFERENCE)
        self.assertEqual(services["fetcher"], facts.Service("fetcher", "orbweaver-fetcher", 9464))
        self.assertEqual(len(services), 2)

    def test_a_reference_without_services_keys_or_secrets_is_a_complaint_and_not_agreement(self):
        with self.assertRaises(facts.Unreadable):
            facts.read_services({})
        without_secrets = {path: {**key, "secret": None} for path, key in REFERENCE["keys"].items()}
        for changed in ({}, {"keys": without_secrets}):
            with self.assertRaises(facts.Unreadable):
                facts.read_keys(changed)

    def test_keys_have_a_default_and_readers_and_say_what_is_redacted(self):
        keys = {key.path: key for key in facts.read_keys(REFERENCE)}
        self.assertTrue(keys["kafka.brokers"].required)
        self.assertEqual(keys["kafka.brokers"].services, {"frontier", "fetcher"})
        self.assertEqual((keys["cql.timeout"].default, keys["cql.timeout"].services), ("10s", {"fetcher"}))
        self.assertEqual((keys["kafka.properties.*"].secret, keys["cql.timeout"].secret), ("name", None))

    def test_names_that_mark_secrets_are_those_of_the_code(self):
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
