#!/usr/bin/python3
"""How to dump from an engine what `poslab probe` reads, with numpy alone.

    scripts/dump_example.py [FOLDER] [--slip NAME]

writes q_in.npy, q_out.npy, k_in.npy, k_out.npy and positions.npy into FOLDER, then says which command to run. The
engine here is a dozen lines of numpy; in a real one, save the same arrays just before and just after it turns queries
and keys. --slip makes it do what engines get wrong, to see poslab name it.
"""

import argparse
import pathlib

import numpy as np

HEADS, HEAD_DIM, ROPE_THETA = 4, 64, 500000.0
SLIPS = ("none", "pairing", "base", "shifted", "twice", "negative", "bf16-tables")


def to_bf16(values):
    """Rounded to bf16 as torch does, ties to even, and kept as float32, since numpy has no bf16."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def rotate(x, positions, slip):
    """The engine: x is [heads, seq_len, head_dim], pairs are (i, i + head_dim / 2)."""
    theta = 10000.0 if slip == "base" else ROPE_THETA
    positions = positions + 1 if slip == "shifted" else positions * 2 if slip == "twice" else positions
    inv_freq = theta ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = positions[:, None] * inv_freq
    cos, sin = np.cos(angles), np.sin(angles) * (-1 if slip == "negative" else 1)
    if slip == "bf16-tables":
        cos, sin = to_bf16(cos), to_bf16(sin)
    y = np.empty_like(x)
    if slip == "pairing":
        first, second = np.s_[..., 0::2], np.s_[..., 1::2]
    else:
        first, second = np.s_[..., : HEAD_DIM // 2], np.s_[..., HEAD_DIM // 2:]
    y[first] = x[first] * cos - x[second] * sin
    y[second] = x[first] * sin + x[second] * cos
    return y


def choose_positions():
    """Neighbours tell each pair's speed, far places tell slow pairs apart; position 0 tells nothing."""
    return np.concatenate([np.arange(16), [100, 1000, 4095]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("--slip", choices=SLIPS, default="none", help="what the engine gets wrong")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(0)
    positions = choose_positions()
    arrays = {"positions": positions}
    for name in ("q", "k"):
        # Any vectors do, as long as no pair is 0: random ones, or those of a real prompt.
        x = rng.standard_normal((HEADS, len(positions), HEAD_DIM)).astype(np.float32)
        # A torch tensor is saved the same way: np.save(path, q.detach().float().cpu().numpy())
        arrays |= {f"{name}_in": x, f"{name}_out": rotate(x, positions, options.slip).astype(np.float32)}
    for name, array in arrays.items():
        np.save(options.folder / f"{name}.npy", array)

    print("poslab probe", " ".join(f"--{tensor}-{side}put {options.folder}/{tensor[0]}_{side}.npy"
                                   for tensor in ("query", "key") for side in ("in", "out")),
          f"--positions-input {options.folder}/positions.npy --layout half --rope-theta {ROPE_THETA:.0f}")


if __name__ == "__main__":
    main()
