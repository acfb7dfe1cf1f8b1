"""schemas/asyncapi.yaml has the topics, messages and examples of schemas/, and every example is valid."""

import copy
import unittest

import jsonschema
import yaml

import asyncapi

DOCUMENT = yaml.safe_load(asyncapi.PAGE.read_text())


def parts(part, path="#"):
    """All objects below a part, each with its path."""
    if isinstance(part, dict):
        yield path, part
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from parts(value, f"{path}/{key}")


def faults(document):
    """References that lead nowhere, invalid schemas and examples, settings that lose records; of a document as text."""
    paths = {path for path, _ in parts(document)}
    found = [f"{path}: dangling reference {part['$ref']}" for path, part in parts(document) if part.get("$ref", "#") not in paths]
    if found:
        return found
    for name, schema in document["components"]["schemas"].items():
        try:
            jsonschema.Draft7Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            found.append(f"schema {name}: {error.message}")
    if found:
        return found
    for name, message in document["components"]["messages"].items():
        for example in message.get("examples", []):
            for part in ("payload", "headers"):
                # References lead into the document. (A schema that is a reference has no other keys in draft 7.)
                schema = {"allOf": [message[part]], "components": document["components"]}
                errors = jsonschema.Draft7Validator(schema).iter_errors(example[part]) if part in example else ()
                found += [f"message {name}, example {example['name']}: {error.message}" for error in errors]
    return found


class AsyncApi(unittest.TestCase):
    def test_the_document_is_what_the_topics_schemas_and_examples_say(self):
        self.assertEqual(asyncapi.PAGE.read_text(), asyncapi.text(), "write it again: tests/interface/check --write")

    def test_references_schemas_and_examples_are_valid(self):
        examples = [example for message in DOCUMENT["components"]["messages"].values() for example in message.get("examples", [])]
        self.assertGreater(len(examples), 140)
        self.assertEqual(faults(DOCUMENT), [])

    def test_planted_faults_are_found(self):
        def message(document, name):
            return document["components"]["messages"][name]

        plants = [
            (lambda d: d["operations"]["write-crawl.seeds"]["channel"].update({"$ref": "#/channels/crawl.seed"}), "dangling reference"),
            (lambda d: d["components"]["schemas"].pop("url-context") and None, "dangling reference"),
            (lambda d: message(d, "document")["examples"][0]["payload"].pop("url") and None, "'url' is a required property"),
            (lambda d: message(d, "page")["examples"][0]["headers"]["page"].update(status="200"), "is not of type 'integer'"),
            (lambda d: message(d, "dispatch")["examples"][0]["payload"]["context"].update(depth=-1), "less than the minimum"),
            (lambda d: d["components"]["schemas"]["seed"].update(type="text"), "schema seed"),
        ]
        for plant, expected in plants:
            with self.subTest(expected):
                document = copy.deepcopy(DOCUMENT)
                plant(document)
                found = faults(document)
                self.assertTrue(any(expected in fault for fault in found), found)

    def test_lists_of_fixed_items_and_references_are_those_of_draft_7(self):
        schema = {"$id": "urn:a", "prefixItems": [{"$ref": "urn:orbweaver:seed:1"}], "items": False}
        expected = {"items": [{"$ref": "#/components/schemas/seed"}], "additionalItems": False}
        self.assertEqual(asyncapi.in_draft_7(schema), expected)

    def test_compacted_topics_are_compacted_and_no_other(self):
        for topic in asyncapi.topics():
            settings = DOCUMENT["channels"][topic["name"]]["bindings"]["kafka"]["topicConfiguration"]
            wanted = "compact" if topic["cleanup"] == "compact" else "delete"
            self.assertEqual((settings["cleanup.policy"], settings["retention.ms"]), ([wanted], -1), topic["name"])


if __name__ == "__main__":
    unittest.main()
