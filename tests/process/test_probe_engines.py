#!/usr/bin/python3
"""`poslab probe` on engines drawn at random: right ones are never accused, wrong ones are named with their place.

    tests/process/test_probe_engines.py build/poslab

tries a small seeded share; POSLAB_ENGINES=N tries the first N right and N wrong ones.
"""

import json
import os

import numpy as np

import poslab_process
import rope_engines
from poslab_process import ProcessTest

COUNT = int(os.environ.get("POSLAB_ENGINES", 0))


class Engines(ProcessTest):
    def ask(self, engine):
        for name in ("x", "y", "positions"):
            np.save(self.folder / f"{name}.npy", engine[name])
        done = self.run_poslab("probe", "--query-input", "x.npy", "--query-output", "y.npy", "--positions-input",
                               "positions.npy", "--format", "json", *engine["flags"])
        self.assertEqual(done.returncode, 0, (engine["name"], done.stderr))
        return json.loads(done.stdout)["summary"]

    def complaint(self, engine):
        summary = self.ask(engine)
        mistake = summary["mistake"] or ""
        if summary["verdict"] not in engine["verdict"]:
            return f"{engine['name']}: verdict {summary['verdict']}, mistake {mistake}, {summary['not_ruled_out'][:4]}"
        if engine["word"] is None and mistake:
            return f"{engine['name']}: accused of {mistake}"
        if engine["word"] and engine["word"] not in mistake:
            return f"{engine['name']}: {mistake!r} ({summary['detail']}) lacks {engine['word']!r}"
        for key, value in engine["where"].items():
            if summary[key] != value:
                return f"{engine['name']}: {key} {summary[key]} for {value} ({mistake})"
        return None

    def check(self, engines):
        bad = [c for c in map(self.complaint, engines) if c]
        self.assertFalse(bad, "\n".join([f"{len(bad)} engines:"] + bad))

    def test_right_engines(self):
        self.check(rope_engines.right_engine(seed) for seed in range(COUNT or 40))

    def test_wrong_engines(self):
        self.check(rope_engines.wrong_engine(seed) for seed in range(COUNT or len(rope_engines.MISTAKES)))


if __name__ == "__main__":
    poslab_process.main()
