#!/usr/bin/python3
"""scripts/encode_text.py: what it writes and what it says, with stand-ins for PyPI's packages; with the real ones where
they are installed."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "encode_text.py"
FAKE_TOKENIZERS = """
class Tokenizer:
    @staticmethod
    def from_file(path):
        open(path).close()
        return Tokenizer()
    def encode(self, text, add_special_tokens):
        class Encoded:
            ids = [1] * add_special_tokens + [ord(c) for c in text]
        return Encoded
"""


class EncodeText(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="poslab_encode_"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "text").write_text("añ")
        (self.folder / "modules").mkdir()
        (self.folder / "tokenizer.json").write_text("{}")
        self.out = self.folder / "tokens.npy"

    def module(self, name, text):
        (self.folder / "modules" / f"{name}.py").write_text(text)

    def run_script(self, *words, stdin=None):
        return subprocess.run([sys.executable, "-B", str(SCRIPT), *map(str, words)], input=stdin, capture_output=True,
                              text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(self.folder / "modules")})

    def test_tokenizer_json(self):
        self.module("tokenizers", FAKE_TOKENIZERS)
        done = self.run_script(self.folder, self.folder / "text", self.out)
        self.assertEqual((done.returncode, done.stderr), (0, "2 tokens, 1.50 bytes each\n"))
        tokens = np.load(self.out)
        self.assertEqual((tokens.dtype, tokens.tolist()), (np.int32, [97, 0xf1]))
        self.run_script("--special", self.folder / "tokenizer.json", "-", self.out, stdin="b")
        self.assertEqual(np.load(self.out).tolist(), [1, 98])

    def test_a_missing_package_is_named(self):
        self.module("tokenizers", "raise ImportError('No module named tokenizers')")
        done = self.run_script(self.folder, self.folder / "text", self.out)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "encode_text.py: No module named tokenizers; pip install tokenizers sentencepiece "
                                      "numpy\n")
        self.assertFalse(self.out.exists())

    def test_errors(self):
        self.module("tokenizers", FAKE_TOKENIZERS)
        empty = self.folder / "empty"
        empty.mkdir()
        cases = {(empty, self.folder / "text"): "holds none of tokenizer.json, tokenizer.model, spiece.model",
                 (self.folder, self.folder / "none"): "No such file",
                 (self.folder / "other.json", self.folder / "text"): "is no tokenizer that can be read"}
        for words, part in cases.items():
            done = self.run_script(*words, self.out)
            self.assertEqual(done.returncode, 1)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        (self.folder / "text").write_bytes(b"\xff")
        self.assertIn("'utf-8' codec", self.run_script(self.folder, self.folder / "text", self.out).stderr)

    @unittest.skipUnless(importlib.util.find_spec("sentencepiece"), "PyPI's sentencepiece is not installed")
    def test_sentencepiece_itself(self):
        (self.folder / "tokenizer.json").unlink()
        shutil.copy(ROOT / "tests/golden/tokenizers/model_bpe.model", self.folder / "tokenizer.model")
        (self.folder / "text").write_text("the position")
        self.assertEqual(self.run_script(self.folder, self.folder / "text", self.out).returncode, 0)
        self.assertGreater(len(np.load(self.out)), 1)


if __name__ == "__main__":
    unittest.main()
