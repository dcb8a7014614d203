#!/usr/bin/python3
"""Turns tensors that torch.save wrote (.pt, .pth) into an .npz file that `poslab probe` reads.

    scripts/dump_convert.py DUMP.pt [OUT.npz]

A dictionary of tensors keeps its names, nested ones joined by dots; a list counts from 0; a single tensor is `tensor`.
bf16 becomes f32, since numpy has none. Needs PyTorch. Only tensors are loaded (weights_only): a file that wants to run
code is refused.
"""

import argparse
import pathlib
import sys

import numpy as np


def flatten(value, name=""):
    """(name, tensor) of every tensor inside dictionaries, lists and tuples."""
    if hasattr(value, "detach"):
        yield name or "tensor", value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for key, inner in enumerate(value):
            yield from flatten(inner, f"{name}.{key}" if name else str(key))


def to_numpy(tensor):
    tensor = tensor.detach().cpu()
    if "bfloat16" in str(tensor.dtype):
        tensor = tensor.float()
    return tensor.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?", help="absent: beside the dump, with .npz for its ending")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("dump_convert.py: needs PyTorch (Debian: python3-torch)")
    try:
        loaded = torch.load(options.dump, map_location="cpu", weights_only=True)
    except Exception as error:
        sys.exit(f"dump_convert.py: {options.dump}: {error}")
    arrays = {name: to_numpy(tensor) for name, tensor in flatten(loaded)}
    if not arrays:
        sys.exit(f"dump_convert.py: {options.dump} holds no tensors")
    out = options.out or options.dump.with_suffix(".npz")
    np.savez(out, **arrays)
    for name, array in arrays.items():
        print(f"{out}:{name} {array.dtype} {list(array.shape)}")


if __name__ == "__main__":
    main()
