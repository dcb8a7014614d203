#!/usr/bin/python3
"""scripts/sweep_context.sh: the loop and the sweep agree, in a folder with a space in its name."""

import re
import subprocess

import poslab_process
from poslab_process import ROOT, ProcessTest, environment


class SweepContext(ProcessTest):
    def test_loop_and_sweep_agree(self):
        done = subprocess.run([ROOT / "scripts" / "sweep_context.sh", "a folder"], capture_output=True, text=True,
                              cwd=self.folder, env=environment(POSLAB=poslab_process.binary))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4096 tokens: base unchanged", done.stdout)
        # Base 10000, 64 pairs, factor 1: theta * (length / 4096)^(128 / 126).
        base = re.search(r"^8192 tokens: base ([\d.]+)$", done.stdout, re.MULTILINE)
        self.assertAlmostEqual(float(base[1]), 10000 * 2 ** (128 / 126), places=8)
        self.assertIn("gave the same documents", done.stdout)
        self.assertEqual(len(re.findall(r"^\+ ", done.stderr, re.MULTILINE)), 14)
        for name in ("loop", "sweep"):
            self.assertEqual((self.folder / "a folder" / f"{name}.ndjson").read_text().count("\n"), 11)
            self.assertTrue((self.folder / "a folder" / f"{name}.png").read_bytes().startswith(b"\x89PNG"))


if __name__ == "__main__":
    poslab_process.main()
