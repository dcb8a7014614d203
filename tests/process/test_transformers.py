#!/usr/bin/python3
"""Checkpoints trained here in PyPI's transformers: the same logits, target by target (as their losses).

Skipped, saying so, where it is not installed. Passed with transformers 4.45.2 and torch 1.13; scaled frequencies need
4.43 or later. By hand:  VENV/bin/python tests/process/test_transformers.py build/poslab
"""

import sys
import unittest

import poslab_process
from poslab_process import ProcessTest

try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    torch = None
    print(f"test_transformers.py: skipped: {error}; pip install transformers torch", file=sys.stderr)

SMALL = ["--d-model", "32", "--n-layers", "2", "--n-heads", "4", "--batch-size", "4", "--steps", "30"]


@unittest.skipIf(torch is None, "transformers is not installed")
class Logits(ProcessTest):
    def compare(self, loader, *words, length=32):
        """The largest difference of a target's loss: poslab's mean per position bucket against transformers'."""
        self.poslab("train", *SMALL, "--seq-len", length, "--save-model", "m", "--quiet", *words)
        model = getattr(transformers, loader).from_pretrained(str(self.folder / "m")).eval()
        vocabulary = model.config.vocab_size
        tokens = np.random.default_rng(0).integers(0, vocabulary, length + 1)
        np.save(self.folder / "t.npy", tokens)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens[None, :length])).logits.double()
        expected = torch.nn.functional.cross_entropy(logits[0], torch.from_numpy(tokens[1:]), reduction="none").numpy()
        # A bucket for each position gives each target's own loss.
        document = self.document("perplexity", "--model", "m", "--tokens", "t.npy", "--seq-len", length, "--buckets",
                                 ",".join(map(str, range(length))))
        found = [r["mean_nll"] for r in document["rows"] if not r["control"]]
        self.assertEqual(len(found), length)
        largest = float(np.abs(np.array(found) - expected).max())
        print(f"{loader} {' '.join(words)}: largest difference of a loss {largest:.2g}", file=sys.stderr)
        self.assertLess(largest, 2e-5)

    def test_rope_is_a_llama(self):
        self.compare("LlamaForCausalLM", "--encoding", "rope")
        self.compare("LlamaForCausalLM", "--encoding", "rope", "--n-kv-heads", "2", "--no-tied-head")

    def test_scaled_rope_is_a_llama(self):
        self.poslab("train", *SMALL, "--seq-len", "32", "--save-model", "short", "--quiet")
        self.compare("LlamaForCausalLM", "--init", "short", "--rope-type", "linear", length=64)

    def test_learned_is_a_gpt2(self):
        self.compare("GPT2LMHeadModel", "--encoding", "learned")


if __name__ == "__main__":
    poslab_process.main()
