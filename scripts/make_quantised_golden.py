#!/usr/bin/env python3
"""Writes tests/golden/quantised.json: blocks of every GGML type that poslab reads, and the numbers that PyPI's gguf
package takes them for. Run in an environment with `pip install gguf numpy`."""

import importlib.metadata
import json
import pathlib

import gguf
import numpy as np

BLOCKS = {"F32": 16, "F16": 32, "BF16": 32, "Q8_0": 4, "Q4_0": 4, "Q4_1": 4, "Q5_0": 4, "Q5_1": 4, "Q4_K": 3,
          "Q5_K": 3, "Q6_K": 3}
# Where the f16 scales of a block stand: random bits there would often be NaN.
SCALES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208]}


def blocks_of(name, rng):
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    rows = BLOCKS[name]
    data = rng.integers(0, 256, size=(rows, block_bytes), dtype=np.uint8)
    for at in SCALES.get(name, []):
        scales = (rng.standard_normal(rows) * 10.0 ** rng.integers(-4, 2, rows)).astype(np.float16)
        scales[-1] = np.float16(3e-7)  # a subnormal one
        data[:, at:at + 2] = scales.view(np.uint8).reshape(rows, 2)
    if name == "F16":
        data = rng.standard_normal(rows).astype(np.float16).view(np.uint8)
    if name in ("F32", "BF16"):
        data = rng.standard_normal(rows).astype(np.float32).view(np.uint8)
        if name == "BF16":
            data = data.reshape(rows, 4)[:, 2:].copy()
    return data.reshape(-1)


def main():
    rng = np.random.default_rng(7)
    out = {"_meta": {"what": "bytes (hex) of rows in each GGML type, and their numbers as f32 bits (hex, little-endian)",
                     "made by": f"scripts/make_quantised_golden.py with gguf {importlib.metadata.version('gguf')}, "
                                f"numpy {np.__version__}"}}
    for name in BLOCKS:
        data = blocks_of(name, rng)
        values = gguf.dequantize(data, gguf.GGMLQuantizationType[name]).astype(np.float32).reshape(-1)
        assert np.isfinite(values).all()
        out[name] = {"number": int(gguf.GGMLQuantizationType[name]), "bytes": data.tobytes().hex(),
                     "values": values.tobytes().hex()}
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/quantised.json"
    path.write_text(json.dumps(out, indent=0) + "\n")


if __name__ == "__main__":
    main()
