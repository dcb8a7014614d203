#!/usr/bin/python3
"""`poslab golden`: an engine in numpy tests itself with the files alone, and `probe` agrees with them."""

import json

import numpy as np

import poslab_process
from poslab_process import ProcessTest


class Golden(ProcessTest):
    def golden(self, *words):
        self.poslab("golden", *words, "--folder", "g", "--format", "json")
        about = json.loads((self.folder / "g/golden.json").read_text())
        arrays = {name[:-4]: np.load(self.folder / "g" / name) for name in about["files"]}
        for name, array in arrays.items():
            self.assertEqual(list(array.shape), about["files"][f"{name}.npy"]["shape"])
        return about, arrays

    @staticmethod
    def worst(about, arrays, x, y, shift=0):
        """The engine's own test: the largest error over what golden.json allows."""
        n = about["rotary_dim"] // 2
        i = np.arange(n)
        a, b = (i, i + n) if about["layout"] == "half" else (2 * i, 2 * i + 1)
        angle = (arrays["positions"] + shift)[:, None] * arrays["inv_freq"]
        c, s = (about["attention_factor"] * f(angle) for f in (np.cos, np.sin))
        u, v = x[..., a].astype(float), x[..., b].astype(float)
        unit = {"f32": 2.0 ** -24, "bf16": 2.0 ** -8, "f16": 2.0 ** -11}[about["dtype"]]
        allowed = arrays["tolerance"] * (abs(u) + abs(v))
        worst = 0
        for wanted, got in ((u * c - v * s, y[..., a]), (v * c + u * s, y[..., b])):
            worst = max(worst, np.max(abs(wanted - got) / (allowed + unit * abs(got) + 1e-30)))
        return worst if np.array_equal(x[..., 2 * n:], y[..., 2 * n:]) else np.inf

    def test_an_engine_tests_itself(self):
        for words in (("--model", "llama-3.1-8b"), ("--model", "phi-2", "--profile", "hf_f32"),
                      ("--model", "gpt-j-6b", "--dtype", "bf16", "--batch-size", 2)):
            with self.subTest(words):
                about, arrays = self.golden(*words)
                for name in ("queries", "keys"):
                    x, y = arrays[f"{name}_in"], arrays[f"{name}_out"]
                    self.assertLessEqual(self.worst(about, arrays, x, y), 1)
                    self.assertGreater(self.worst(about, arrays, x, y, shift=1), 10)
                summary = self.document("probe", "--query-input", "g/queries_in.npy", "--query-output", "g/queries_out.npy",
                                        "--key-input", "g/keys_in.npy", "--key-output", "g/keys_out.npy", "--positions-input",
                                        "g/positions.npy", *words[:2])["summary"]
                self.assertEqual((summary["verdict"], summary["mistake"]), ("match", None))

    def test_tables(self):
        about, arrays = self.golden("--rope-theta", 500000, "--profile", "f32_table")
        angle = arrays["positions"][:, None] * 500000.0 ** (-np.arange(0, 128, 2) / 128)
        np.testing.assert_array_equal(arrays["cos"], np.cos(angle).astype("f4"))
        np.testing.assert_allclose(arrays["sin"], np.sin(angle), atol=2.0 ** -24)
        self.assertEqual(about["layout"], "half")

    def test_without_a_folder(self):
        document = self.document("golden")
        self.assertIsNone(document["summary"]["written"])
        self.assertEqual(self.names(), [])
        for words, said in ((("--n-heads", 0), "n_heads must be 1"), (("--positions", ""), "positions are empty"),
                            (("--profile", "f33"), "unknown profile"), (("--folder", "/dev/null/x"), "cannot make")):
            self.refused("golden", *words, said=said)


if __name__ == "__main__":
    poslab_process.main()
