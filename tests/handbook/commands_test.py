"""Commands are read as they are written, and one that ends otherwise is found."""

import os
import unittest

import commands

PAGE = """# Page

```sh
echo one > file
false   # exit code 1
cat \\
  file
```

```text
not run
```

```sh,cluster
on servers
```
"""


def result(text: str) -> tuple[int, str]:
    return commands.run(commands.script(commands.steps("page.md", f"```sh\n{text}\n```\n", "sh")), dict(os.environ))


class Commands(unittest.TestCase):
    def test_a_block_of_a_kind_is_read_line_by_line_with_the_exit_codes(self):
        expected = [("page.md:4", "echo one > file", 0), ("page.md:5", "false", 1), ("page.md:6", "cat \\\n  file", 0)]
        self.assertEqual([(step.where, step.command, step.code) for step in commands.steps("page.md", PAGE, "sh")], expected)
        self.assertEqual([step.command for step in commands.steps("page.md", PAGE, "sh,cluster")], ["on servers"])

    def test_commands_run_in_order_in_an_empty_directory(self):
        code, said = result("ls\necho text > file\ncat file")
        self.assertEqual((code, said.splitlines()), (0, ["+ page.md:2", "+ page.md:3", "+ page.md:4", "text"]))

    def test_a_command_that_fails_ends_the_chapter_with_its_line(self):
        code, said = result("true\nfalse\necho later")
        self.assertEqual((code, said.splitlines()[-1]), (1, "page.md:3: exit code 1, not 0"))

    def test_a_command_that_succeeds_although_it_should_not_is_found(self):
        self.assertEqual(result("true   # exit code 75")[0], 1)
        self.assertEqual(result("(exit 75)   # exit code 75")[0], 0)

    def test_a_failure_within_a_pipe_is_found_and_the_end_of_its_reader_is_none(self):
        self.assertEqual(result("false | cat")[0], 1)
        self.assertEqual(result("yes | head -n 1")[0], 0)

    def test_a_variable_of_a_command_is_that_of_the_next_one_and_a_server_ends_with_the_chapter(self):
        code, said = result("sleep 1000 & server=$!\nkill -0 $server")
        self.assertEqual(code, 0, said)

    def test_ports_of_the_text_are_replaced_each_by_one_free_port(self):
        text = commands.with_own_ports("python3 -m http.server 8000\ncurl http://127.0.0.1:8000/ 127.0.0.1:9480 80001 8000")
        self.assertRegex(text, r"http\.server (\d+)\ncurl http://127\.0\.0\.1:\1/ 127\.0\.0\.1:\d+ 80001 8000")
        self.assertNotIn("9480", text)


if __name__ == "__main__":
    unittest.main()
