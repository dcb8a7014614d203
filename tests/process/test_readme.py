#!/usr/bin/python3
"""README's examples: every ```console block is run, and what it shows is what comes out.

In a block, a line that begins with `$ ` is a command (a trailing backslash continues it); the lines up to the next one
are its output, where a line `...` stands for any lines. A command without shown output must only succeed.
"""

import re
import shlex
import subprocess

import poslab_process
from poslab_process import ROOT, ProcessTest, environment


def examples(text):
    """(line number, command, output lines) of every example in a Markdown text."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        if block is None:
            block = [] if line.strip() == "```console" else None
        elif line.strip() == "```":
            yield from block
            block = None
        elif block and block[-1][1].endswith("\\") and not block[-1][2]:
            block[-1] = (block[-1][0], block[-1][1][:-1] + line.strip(), [])
        elif line.startswith("$ "):
            block.append((number, line[2:], []))
        elif block:
            block[-1][2].append(line)


def pattern(lines):
    """A regular expression for the shown output."""
    return "".join(r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line) + "\n" for line in lines)


class Readme(ProcessTest):
    def setUp(self):
        super().setUp()
        # A user's view of the repository: its files, and the built binary where the scripts leave it.
        for entry in ("configs", "scripts", "docs"):
            if (ROOT / entry).exists():
                (self.folder / entry).symlink_to(ROOT / entry)
        (self.folder / "build").mkdir()
        (self.folder / "build" / "poslab").symlink_to(poslab_process.binary)

    def test_the_reader_of_examples(self):
        text = "```console\n$ a \\\n  b\nout\n...\nend\n$ c\n```\n```sh\n$ d\n```\n"
        self.assertEqual(list(examples(text)), [(2, "a b", ["out", "...", "end"]), (7, "c", [])])
        self.assertTrue(re.fullmatch(pattern(["out", "...", "end"]), "out\n1\n2\nend\n"))
        self.assertFalse(re.fullmatch(pattern(["out", "...", "end"]), "out\n1\n2\nends\n"))

    def test_examples(self):
        for page in ["README.md"] + sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")):
            found = list(examples((ROOT / page).read_text()))
            if page == "README.md":
                self.assertTrue(found, "README.md shows no example")
            for number, command, shown in found:
                with self.subTest(f"{page}:{number}: {command}"):
                    self.check(command, "\n".join(shown))

    def check(self, command, shown):
        poslab = shlex.quote(poslab_process.binary)
        command = re.sub(r"(?<!\S)\./scripts/run\.sh(?!\S)", poslab, command)  # it would build another binary
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f'poslab() {{ {poslab} "$@"; }}; {command}'],
                              cwd=self.folder, env=environment(LC_ALL="C.UTF-8"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=poslab_process.TIMEOUT)
        output = done.stdout.decode()
        if shown:
            self.assertTrue(re.fullmatch(pattern(shown.split("\n")), output), f"{command}\n{output}")
        else:
            self.assertEqual(done.returncode, 0, output)


if __name__ == "__main__":
    poslab_process.main()
