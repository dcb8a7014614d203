#!/usr/bin/python3
"""Damaged models: each subcommand that reads what is damaged ends with status 2, one line and little memory."""

import json
import resource
import shutil
import struct

import numpy as np

import poslab_process
from poslab_process import ROOT, ProcessTest

GOOD = ROOT / "tests" / "golden" / "families" / "qwen3"
WORDS = {
    "perplexity": ("perplexity", "--tokens", "tokens.npy", "--seq-len", "8", "--model"),
    "recall": ("recall", "--model"),
    "detect": ("permute", "--detect", "--tokens", "tokens.npy", "--model"),
    "permute": ("permute", "--save-weights", "out.safetensors", "--model"),
    "inspect": ("inspect", "--model"),
    "probe": ("probe", "--model"),
    "extend": ("extend", "--model"),
    "cache-test": ("cache-test", "--model"),
}
RUNS_THE_MODEL = ("perplexity", "recall", "detect")
READS_WEIGHTS = (*RUNS_THE_MODEL, "permute", "inspect")


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class DamagedModels(ProcessTest):
    def setUp(self):
        super().setUp()
        np.save(self.folder / "tokens.npy", np.arange(24, dtype=np.int32))
        self.gguf = (GOOD / "model.gguf").read_bytes()
        self.weights = (GOOD / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", self.weights[:8])[0]
        self.header, self.data = json.loads(self.weights[8 : 8 + size]), self.weights[8 + size :]
        self.config = json.loads((GOOD / "config.json").read_text())

    def all_refuse(self, path, readers, said):
        for reader in readers:
            self.refused(*WORDS[reader], path, said=said)
        self.assertFalse((self.folder / "out.safetensors").exists())
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 20)  # KB, sanitizers' share too

    def model(self, weights=None, config=None, **files):
        """A folder with these bytes beside or in place of what a good one has."""
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config | (config or {})))
        if weights is not None:
            (folder / "model.safetensors").write_bytes(weights)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        return folder

    def changed(self, change):
        header = json.loads(json.dumps(self.header))
        change(header, sorted(name for name in header if name != "__metadata__"))
        return self.model(safetensors(header, self.data))

    def test_the_good_ones_run(self):
        for words in WORDS.values():
            if words[0] != "recall":  # of another vocabulary
                self.poslab(*words, self.model(self.weights))
        for reader in ("perplexity", "detect", "inspect", "probe", "extend", "cache-test"):
            self.poslab(*WORDS[reader], self.file("good.gguf", self.gguf))

    def test_gguf(self):
        readers = [reader for reader in WORDS if reader != "permute"]
        for n, said in ((0, "is empty"), (3, "not a GGUF file"), (23, "truncated"), (len(self.gguf) // 2, "truncated"),
                        (len(self.gguf) - 1, "truncated")):
            self.all_refuse(self.file("cut.gguf", self.gguf[:n]), readers, said)
        huge = struct.pack("<Q", 2**63)
        for at, said in ((8, "tensors do not fit"), (16, "metadata values")):
            self.all_refuse(self.file("huge.gguf", self.gguf[:at] + huge + self.gguf[at + 8 :]), readers, said)
        self.all_refuse(self.file("magic.gguf", b"GGML" + self.gguf[4:]), readers, "not a GGUF file")
        odd = self.gguf.replace(b"\x05\0\0\0\0\0\0\0qwen3", b"\x05\0\0\0\0\0\0\0qwenX")
        self.all_refuse(self.file("odd.gguf", odd), readers, ["qwenX is not known", "qwen2"])
        (self.folder / "dangling.gguf").symlink_to("/nowhere/x.gguf")
        self.all_refuse(self.folder / "dangling.gguf", readers, "/nowhere/x.gguf")

    def test_safetensors(self):
        for n, said in ((0, "is empty"), (7, "too few"), (100, "does not fit"), (len(self.weights) - 1, "truncated")):
            self.all_refuse(self.model(self.weights[:n]), READS_WEIGHTS, said)
        self.all_refuse(self.model(struct.pack("<Q", 2**63) + self.weights[8:]), READS_WEIGHTS, "does not fit")
        self.all_refuse(self.model(b"PK\x03\x04" + self.weights), READS_WEIGHTS, "pickle")
        self.all_refuse(self.model(None, pytorch_model__bin=b"PK\x03\x04"), RUNS_THE_MODEL, "pickle")
        self.all_refuse(self.model(), RUNS_THE_MODEL, "no model.safetensors")

        def overlap(header, names):
            header[names[1]]["data_offsets"] = header[names[0]]["data_offsets"]
            header[names[1]]["shape"] = header[names[0]]["shape"]

        self.all_refuse(self.changed(overlap), READS_WEIGHTS, "overlaps")
        for key, value, said in (("dtype", "F7", "F7 is not known"), ("shape", [2**62, 4], "overflows"),
                                 ("data_offsets", [2**62, 2**62 + 8], "data_offsets"),
                                 ("data_offsets", [-8, 0], "data_offsets")):
            self.all_refuse(self.changed(lambda header, names: header[names[0]].update({key: value})), READS_WEIGHTS,
                            said)
        twice = json.dumps(self.header)[:-1] + ', "model.norm.weight": {}}'
        self.all_refuse(self.model(struct.pack("<Q", len(twice)) + twice.encode() + self.data), READS_WEIGHTS,
                        "duplicate key")
        begin = self.header["model.norm.weight"]["data_offsets"][0]
        nan = self.data[:begin] + struct.pack("<f", float("nan")) + self.data[begin + 4 :]
        self.all_refuse(self.model(safetensors(self.header, nan)), RUNS_THE_MODEL, "model.norm.weight holds nan")

    def test_shards(self):
        tensors = [name for name in self.header if name != "__metadata__"]

        def placed(shard):
            return json.dumps({"weight_map": dict.fromkeys(tensors, shard)}).encode()

        for shard, said in (("a.safetensors", "No such file"), ("../model/a.safetensors", "no plain file name"),
                            ("/etc/passwd", "no plain file name"), ("..", "no plain file name")):
            folder = self.model(None)
            (folder / "model.safetensors.index.json").write_bytes(placed(shard))
            self.all_refuse(folder, READS_WEIGHTS, said)

    def test_config(self):
        for key, value, said in (("model_type", "wombat", "qwen3"), ("hidden_act", "relu", "relu"),
                                 ("num_hidden_layers", 900_000_000, "n_layers"), ("vocab_size", 2**63, "too large"),
                                 ("vocab_size", 41, "has the shape"), ("intermediate_size", -1, "d_ff"),
                                 ("num_key_value_heads", 2**62, "num_key_value_heads")):
            self.all_refuse(self.model(self.weights, {key: value}), RUNS_THE_MODEL, said)
        for text, said in ((b"", "not JSON"), (b"[" * 100_000, "nested"), (b'{"a": 1, "a": 2}', "duplicate key")):
            folder = self.model(self.weights)
            (folder / "config.json").write_bytes(text)
            self.all_refuse(folder, list(WORDS), said)


if __name__ == "__main__":
    poslab_process.main()
