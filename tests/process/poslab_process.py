"""What the process tests share: running the binary in a folder of its own, and what its answers must look like.

Each test file runs alone, as ctest does:  tests/process/test_sweeps.py build/poslab [unittest options]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

binary = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 600  # seconds; a run that computes what it should have refused ends here, one under sanitizers does not


def environment(**changes):
    """The caller's environment without what changes poslab's output."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "POSLAB_ISA", "COLUMNS")}
    return kept | changes


def without_context(document):
    return {k: v for k, v in document.items() if k != "context"}


def strip_context(text):
    """A JSON text without its context, otherwise byte for byte."""
    return re.sub(r',\s*"context": \{[^{}]*\}', "", text)


class ProcessTest(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="poslab test ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_poslab(self, *words, env=None, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([binary, *map(str, words)], cwd=self.folder, env=env or environment(), timeout=TIMEOUT,
                              stderr=subprocess.PIPE, **kwargs)

    def poslab(self, *words, status=0, **kwargs):
        """stdout of a run that ends with this status and says nothing on stderr."""
        done = self.run_poslab(*words, **kwargs)
        self.assertEqual((done.returncode, done.stderr.decode()), (status, ""), words)
        return done.stdout.decode() if done.stdout is not None else None

    def document(self, *words, **kwargs):
        return json.loads(self.poslab(*words, "--format", "json", **kwargs))

    def points(self, *words, **kwargs):
        """The documents of a sweep."""
        return [json.loads(line) for line in self.poslab(*words, "--format", "ndjson", **kwargs).splitlines()]

    def refused(self, *words, said=(), **kwargs):
        """The message of a run that ends with status 2, one line on stderr and nothing on stdout."""
        done = self.run_poslab(*words, **kwargs)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 2, (words, message))
        self.assertRegex(message, r"\Aposlab: [^\n]+\n\Z", words)
        self.assertIn(done.stdout, (b"", None), words)
        for part in [said] if isinstance(said, str) else said:
            self.assertIn(part.lower(), message.lower(), words)
        return message

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def names(self):
        return sorted(p.name for p in self.folder.iterdir())


def main():
    global binary
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(f"usage: {sys.argv[0]} PATH_OF_POSLAB [unittest options]")
    binary = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
