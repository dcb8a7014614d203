#!/usr/bin/python3
"""`poslab probe` on files: what scripts/dump_example.py writes, odd shapes and orders, and files that are wrong."""

import pathlib
import shlex
import subprocess
import sys

import numpy as np

import poslab_process
from poslab_process import ProcessTest

ROOT = poslab_process.ROOT


def half(x, positions, theta=10000.0):
    """x [..., seq_len, head_dim] turned, pairs (i, i + head_dim / 2)."""
    d = x.shape[-1]
    turn = np.exp(1j * positions[..., :, None] * theta ** (-np.arange(0, d, 2) / d))
    z = (x[..., : d // 2] + 1j * x[..., d // 2:]) * turn
    return np.concatenate([z.real, z.imag], -1)


class Probe(ProcessTest):
    def save(self, **arrays):
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array)

    def vectors(self, x, y, *words, **kwargs):
        self.save(x=x, y=y)
        return self.document("probe", "--query-input", "x.npy", "--query-output", "y.npy", *words, **kwargs)

    def refused(self, *words):
        done = self.run_poslab("probe", *words)
        self.assertEqual((done.returncode, done.stdout), (2, b""), words)
        return done.stderr.decode()

    def test_the_example_dump(self):
        wanted = {"none": None, "pairing": "pairing swapped", "base": "base default used", "shifted": "positions shifted",
                  "twice": "positions doubled or rotated twice", "negative": "negative angle",
                  "bf16-tables": "tables in bf16"}
        for slip, mistake in wanted.items():
            with self.subTest(slip):
                made = subprocess.run([sys.executable, ROOT / "scripts/dump_example.py", "dump", "--slip", slip],
                                      cwd=self.folder, check=True, capture_output=True, text=True)
                command = shlex.split(made.stdout)
                self.assertEqual(command[:2], ["poslab", "probe"])
                document = self.document(*command[1:])
                self.assertEqual(document["summary"]["mistake"], mistake)
                self.assertEqual(document["summary"]["verdict"], "mismatch" if mistake else "match")
                self.assertEqual(len(document["rows"]), 2 * 32)
                self.poslab(*command[1:], "--expect", "match", "--format", "json", status=1 if mistake else 0)

    def test_axes_orders_and_types(self):
        rng = np.random.default_rng(0)
        positions = np.arange(40)
        x = rng.standard_normal((3, 40, 64))
        y = half(x, positions)
        self.save(p=positions)
        meant = ("--layout", "half", "--rope-theta", "10000")
        shapes = {
            "heads first": (x, y, ()),
            "no heads": (x[0], y[0], ()),
            "batch and heads": (x[None], y[None], ()),
            "places first": (x.transpose(1, 0, 2), y.transpose(1, 0, 2), ("--positions-input", "p.npy")),
            "Fortran order": (np.asfortranarray(x), np.asfortranarray(y), ()),
            "big endian": (x.astype(">f4"), y.astype(">f8"), ()),
            "f16": (x.astype("f2"), half(x.astype("f2").astype("f8"), positions).astype("f2"), ()),
            "one input for all places": (x[:1, :1], half(np.broadcast_to(x[:1, :1], x.shape), positions), ()),
        }
        for name, (before, after, words) in shapes.items():
            with self.subTest(name):
                summary = self.vectors(before, after, *meant, *words)["summary"]
                self.assertEqual((summary["verdict"], summary["mistake"], summary["n_places"]), ("match", None, 40))
                self.assertEqual((summary["layout"], summary["rotary_dim"], summary["rope_theta"]), ("half", 64, 10000))

    def test_positions_by_batch(self):
        # Two prompts, the second padded on the left: what positions say is what counts.
        rng = np.random.default_rng(0)
        positions = np.stack([np.arange(24), np.maximum(np.arange(24) - 5, 0)])
        x = rng.standard_normal((2, 3, 24, 64))
        y = half(x, positions[:, None, :])
        self.save(p=positions, shared=np.arange(24))
        meant = ("--layout", "half", "--rope-theta", "10000")
        right = self.vectors(x, y, *meant, "--positions-input", "p.npy")["summary"]
        self.assertEqual((right["verdict"], right["n_places"]), ("match", 48))
        padded = self.vectors(x[1], y[1], *meant, "--positions-input", "shared.npy")["summary"]
        self.assertEqual(padded["verdict"], "mismatch")

    def test_unit_vectors(self):
        positions = np.arange(1, 9)
        eye = np.broadcast_to(np.eye(32), (8, 32, 32))
        turned = half(eye.transpose(1, 0, 2), positions, theta=500000.0).transpose(1, 0, 2)
        self.save(u=turned, p=positions)
        summary = self.document("probe", "--unit-vectors", "u.npy", "--positions-input", "p.npy")["summary"]
        self.assertEqual((summary["verdict"], summary["layout"], summary["rotary_dim"], summary["rope_theta"]),
                         ("match", "half", 32, 500000))

    def test_tables_and_frequencies(self):
        inv_freq = 500000.0 ** (-np.arange(0, 64, 2) / 64)
        angles = np.arange(50)[:, None] * inv_freq
        doubled = np.concatenate([angles, angles], -1)
        repeated = np.repeat(angles, 2, -1)
        for layout, table in (("half", doubled), ("interleaved", repeated), (None, angles)):
            with self.subTest(layout):
                self.save(c=np.cos(table).astype("f4"), s=np.sin(table).astype("f4"), w=inv_freq.astype("f4"))
                summary = self.document("probe", "--cos", "c.npy", "--sin", "s.npy", "--rope-theta", 500000)["summary"]
                self.assertEqual((summary["verdict"], summary["layout"], summary["rotary_dim"]), ("match", layout, 64))
                summary = self.document("probe", "--cos", "c.npy", "--sin", "s.npy", "--rope-theta", 1000000)["summary"]
                self.assertEqual((summary["verdict"], summary["rope_theta"]), ("mismatch", 500000))
        summary = self.document("probe", "--inv-freq", "w.npy")["summary"]
        self.assertEqual((summary["verdict"], summary["rope_theta"], summary["layout"]), ("match", 500000, None))
        summary = self.document("probe", "--inv-freq", "w.npy", "--model", "llama-3.1-8b", "--head-dim", 64)["summary"]
        self.assertEqual(summary["mistake"], "Llama-3 block ignored")

    def test_a_table_that_ends_too_soon(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2, 128, 64))
        y = half(x, np.arange(128))
        y[:, 100:] = x[:, 100:]
        summary = self.vectors(x, y, "--layout", "half", "--rope-theta", "10000")["summary"]
        self.assertEqual((summary["verdict"], summary["first_wrong_position"]), ("mismatch", 100))

    def test_queries_and_keys_that_differ(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2, 64, 64))
        self.save(x=x, q=half(x, np.arange(64)), k=half(x, 2 * np.arange(64)))
        words = ("--query-input", "x.npy", "--query-output", "q.npy", "--key-input", "x.npy", "--key-output", "k.npy")
        summary = self.document("probe", *words, "--layout", "half")["summary"]
        self.assertEqual(summary["verdict"], "mismatch")
        self.assertIn("in keys alone", summary["mistake"])

    def test_files_that_are_wrong(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((3, 40, 64))
        y = half(x, np.arange(40))
        bad = y.copy()
        bad[1, 7, 5] = np.nan
        self.save(x=x, y=y, bad=bad, p=np.arange(41), short=y[:, :39], one=np.float64(1), odd=y[..., :63],
                  text=np.array(["a"]), empty=np.zeros((0, 4)), whole=np.arange(4) - 1)
        (self.folder / "cut.npy").write_bytes((self.folder / "y.npy").read_bytes()[:-8])
        (self.folder / "nothing.npy").write_bytes(b"")

        def ask(before, after, *more):
            return self.refused("--query-input", before, "--query-output", after, *more)

        self.assertIn("bad.npy has nan at [1, 7, 5]", ask("x.npy", "bad.npy"))
        self.assertIn("no axis of y.npy (3 x 40 x 64) counts them", ask("x.npy", "y.npy", "--positions-input", "p.npy"))
        self.assertIn("must have the same shape", ask("x.npy", "short.npy"))
        self.assertIn("63 channels", ask("odd.npy", "odd.npy"))
        self.assertIn("single value", ask("one.npy", "one.npy"))
        self.assertIn("text.npy", ask("x.npy", "text.npy"))
        self.assertIn("holds no values", ask("empty.npy", "empty.npy"))
        self.assertIn("cut.npy", ask("x.npy", "cut.npy"))
        self.assertIn("nothing.npy", ask("x.npy", "nothing.npy"))
        self.assertIn("missing.npy", ask("x.npy", "missing.npy"))
        self.assertIn("give both", self.refused("--query-input", "x.npy"))
        self.assertIn("give both", self.refused("--cos", "x.npy"))
        self.assertIn("one kind at a time", ask("x.npy", "y.npy", "--inv-freq", "p.npy"))
        self.assertIn("negative frequency", self.refused("--inv-freq", "whole.npy"))
        self.assertIn("head_dim is 128", ask("x.npy", "y.npy", "--head-dim", "128"))
        self.assertIn("would change nothing", self.refused("--demo", "linear factor missing"))
        self.assertIn("unknown profile", ask("x.npy", "y.npy", "--profile", "f33"))

    def test_without_files(self):
        summary = self.document("probe")["summary"]
        self.assertEqual((summary["verdict"], summary["mistake"]), ("mismatch", "pairing swapped"))
        self.assertEqual(self.document("probe", "--demo", "none")["summary"]["verdict"], "match")
        self.assertIn("Mistake: pairing swapped", self.poslab("probe", "--format", "text"))


if __name__ == "__main__":
    poslab_process.main()
