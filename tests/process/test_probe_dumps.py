#!/usr/bin/python3
"""What `poslab probe` reads: .npz and .safetensors, odd shapes, and what scripts/dump_hook.py and dump_convert.py write.
PyTorch itself is used where it is installed; a stand-in with its few methods elsewhere."""

import io
import json
import struct
import subprocess
import sys
import types
import unittest
import zipfile

import numpy as np

import poslab_process
from poslab_process import ProcessTest

sys.dont_write_bytecode = True
sys.path.insert(0, str(poslab_process.ROOT / "scripts"))
import dump_hook  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def half(x, positions, theta=10000.0):
    """x [..., seq_len, head_dim] rotated, pairs (i, i + head_dim / 2)."""
    d = x.shape[-1]
    turn = np.exp(1j * np.asarray(positions)[..., :, None] * theta ** (-np.arange(0, d, 2) / d))
    z = (x[..., : d // 2] + 1j * x[..., d // 2:]) * turn
    return np.concatenate([z.real, z.imag], -1)


def safetensors(**arrays):
    words = {"f4": "F32", "f8": "F64", "f2": "F16", "i8": "I64", "i4": "I32"}
    header, data = {}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": words[array.dtype.str[1:]], "shape": array.shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class Tensor(np.ndarray):
    """What dump_hook.py asks of a torch tensor."""
    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


class TinyRotaryEmbedding:
    def __init__(self):
        self.hooks = []

    def register_forward_pre_hook(self, hook, with_kwargs):
        self.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def __call__(self, x, position_ids):
        for hook in self.hooks:
            hook(self, (x, position_ids), {})
        return position_ids


class TinyModel:
    """Two layers that call their module's apply_rotary_pos_emb, as transformers' models do."""
    def __init__(self):
        self.rotary = TinyRotaryEmbedding()

    def modules(self):
        return [self, self.rotary]

    def __call__(self, x, positions):
        for _ in range(2):
            q, k = sys.modules[__name__].apply_rotary_pos_emb(x, x[:, :2], self.rotary(x, positions))
        return q, k


def apply_rotary_pos_emb(q, k, positions):
    return half(q, positions).astype("f4").view(Tensor), half(k, positions).astype("f4").view(Tensor)


class Dumps(ProcessTest):
    meant = ("--layout", "half", "--rope-theta", 10000, "--head-dim", 64)

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.p = np.arange(24)
        self.x = rng.standard_normal((2, 4, 24, 64)).astype("f4")
        self.y = half(self.x, self.p).astype("f4")

    def probe(self, before, after, *words, **kwargs):
        return self.document("probe", "--query-input", before, "--query-output", after, *self.meant, *words,
                             **kwargs)["summary"]

    def matches(self, *words):
        summary = self.probe(*words)
        self.assertEqual((summary["verdict"], summary["mistake"]), ("match", None))
        return summary

    def test_archives(self):
        np.savez(self.folder / "plain.npz", x=self.x, y=self.y, p=self.p)
        np.savez_compressed(self.folder / "deflated.npz", x=self.x, y=self.y, p=self.p)
        self.file("d.safetensors", safetensors(x=self.x, y=self.y, p=self.p))
        for archive in ("plain.npz", "deflated.npz", "d.safetensors"):
            with self.subTest(archive):
                self.matches(f"{archive}:x", f"{archive}:y", "--positions-input", f"{archive}:p")
        np.savez(self.folder / "one.npz", self.x)
        np.save(self.folder / "y.npy", self.y)
        self.matches("one.npz", "y.npy")

    def test_archives_that_are_wrong(self):
        np.savez(self.folder / "d.npz", x=self.x, y=self.y)
        np.savez_compressed(self.folder / "z.npz", x=self.x)
        self.file("cut.npz", (self.folder / "d.npz").read_bytes()[:-30])
        for archive in ("d.npz", "z.npz"):
            whole = bytearray((self.folder / archive).read_bytes())
            whole[5000] ^= 1
            self.file("bad-" + archive, bytes(whole))
        pickled = io.BytesIO()
        with zipfile.ZipFile(pickled, "w") as archive:
            archive.writestr("dump/data.pkl", b"")
        self.file("torch.npz", pickled.getvalue())
        self.file("torch.pt", pickled.getvalue())
        self.file("text.npz", b"no archive at all, but long enough to be one")
        wanted = {"d.npz": ["holds 2 arrays", "x, y"], "d.npz:z": ["no array 'z' but x, y"],
                  "cut.npz:x": ["truncated"], "bad-d.npz:x": ["damaged data in 'x'"],
                  "bad-z.npz:x": ["damaged data in 'x'"], "torch.npz:x": ["dump_convert.py"],
                  "torch.pt": ["dump_convert.py"], "text.npz:x": ["zip"], "missing.npz:x": ["missing.npz"]}
        for place, said in wanted.items():
            self.refused("probe", "--query-input", place, "--query-output", "d.npz:y", said=said)

    def test_shapes_of_engines(self):
        flat = self.y.transpose(0, 2, 1, 3).reshape(2, 24, 4 * 64)
        np.savez(self.folder / "d.npz", x=self.x, y=self.y, flat_x=self.x.transpose(0, 2, 1, 3).reshape(2, 24, 256),
                 flat_y=flat, p=self.p[None, None], few=self.x[:, :2], many=np.repeat(self.y[:, :2], 2, 1), rows=self.y[0, 0],
                 rows_x=self.x[0, 0])
        self.matches("d.npz:x", "d.npz:y", "--positions-input", "d.npz:p")
        self.matches("d.npz:flat_x", "d.npz:flat_y", "--positions-input", "d.npz:p")
        self.matches("d.npz:few", "d.npz:many")  # keys repeated for their query heads
        self.matches("d.npz:rows_x", "d.npz:rows")
        y = half(self.x, self.p + (np.arange(4) == 2)[:, None])
        np.savez(self.folder / "d.npz", x=self.x.transpose(0, 2, 1, 3).reshape(2, 24, 256),
                 y=y.transpose(0, 2, 1, 3).reshape(2, 24, 256).astype("f4"))
        summary = self.probe("d.npz:x", "d.npz:y")
        self.assertEqual((summary["mistake"], summary["wrong_heads"]), ("positions shifted", [2]))

    def test_vectors_that_tell_nothing(self):
        x, y = self.x.copy(), self.y.copy()
        for i in (3, 9):
            x[..., [i, i + 32]] = y[..., [i, i + 32]] = 0
        np.savez(self.folder / "d.npz", x=x, y=y, zero=0 * x, same=np.ones_like(x), turned=half(np.ones_like(x), self.p).astype("f4"))
        summary = self.probe("d.npz:x", "d.npz:y")
        self.assertEqual((summary["verdict"], summary["silent_pairs"]), ("undecided", [3, 9]))
        self.assertEqual(self.probe("d.npz:zero", "d.npz:zero")["verdict"], "undecided")
        self.matches("d.npz:same", "d.npz:turned")

    def test_positions_that_repeat(self):
        p = np.array([0, 1, 2, 3] * 6)
        np.savez(self.folder / "d.npz", x=self.x, y=half(self.x, p).astype("f4"), p=p)
        self.matches("d.npz:x", "d.npz:y", "--positions-input", "d.npz:p")

    def test_latent_attention(self):
        """DeepSeek's heads end with the 64 channels that rotate; its own code reads pairs and writes halves."""
        rng = np.random.default_rng(1)
        x = rng.standard_normal((1, 2, 40, 192)).astype("f4")
        model = ("--model", "deepseek-v3")
        # Base 10000, YaRN x40 over 4096 tokens; its two mscales cancel (arXiv:2309.00071, arXiv:2412.19437).
        plain = 10000.0 ** (-np.arange(0, 64, 2) / 64)
        low, high = (64 * np.log(4096 / (2 * np.pi * turns)) / (2 * np.log(10000)) for turns in (32, 1))
        ramp = np.clip((np.arange(32) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
        w = plain * (1 - ramp) + plain / 40 * ramp
        turn = np.exp(1j * np.arange(40)[:, None] * w)
        z = (x[..., 128::2] + 1j * x[..., 129::2]) * turn
        pairs, halves = x.copy(), x.copy()
        pairs[..., 128::2], pairs[..., 129::2] = z.real, z.imag
        halves[..., 128:160], halves[..., 160:] = z.real, z.imag
        first = x.copy()
        z = (x[..., :64:2] + 1j * x[..., 1:64:2]) * turn
        first[..., :64:2], first[..., 1:64:2] = z.real, z.imag
        np.savez(self.folder / "d.npz", x=x, pairs=pairs, halves=halves, first=first, part=x[..., 128:], part_out=halves[..., 128:])

        def ask(before, after):
            return self.document("probe", "--query-input", f"d.npz:{before}", "--query-output", f"d.npz:{after}", *model)["summary"]

        for before, after in (("x", "pairs"), ("x", "halves"), ("part", "part_out")):
            summary = ask(before, after)
            self.assertEqual((summary["verdict"], summary["mistake"]), ("match", None), after)
        self.assertEqual(ask("x", "first")["mistake"], "first channels rotated")

    def test_the_hook_with_a_stand_in(self):
        model = TinyModel()
        kept = apply_rotary_pos_emb
        with dump_hook.record(model, self.folder / "d.npz", layer=1):
            model(self.x.view(Tensor), self.p[None].view(Tensor))
        self.assertIs(apply_rotary_pos_emb, kept)
        self.assertEqual(model.rotary.hooks, [])
        summary = self.document("probe", "--query-input", "d.npz:q_in", "--query-output", "d.npz:q_out", "--key-input",
                                "d.npz:k_in", "--key-output", "d.npz:k_out", "--positions-input", "d.npz:positions",
                                *self.meant)["summary"]
        self.assertEqual((summary["verdict"], summary["n_places"]), ("match", 2 * 2 * 24))
        with self.assertRaisesRegex(ValueError, "layer 2 never rotated"):
            with dump_hook.record(model, self.folder / "no.npz", layer=2):
                model(self.x.view(Tensor), self.p[None].view(Tensor))

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_converting(self):
        torch.save({"q": [torch.from_numpy(self.x), torch.from_numpy(self.y)]}, self.folder / "d.pt")
        subprocess.run([sys.executable, poslab_process.ROOT / "scripts/dump_convert.py", "d.pt"], cwd=self.folder, check=True,
                       capture_output=True)
        self.matches("d.npz:q.0", "d.npz:q.1")


if __name__ == "__main__":
    poslab_process.main()
