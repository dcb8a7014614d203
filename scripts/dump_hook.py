#!/usr/bin/python3
"""Writes what `poslab probe` reads out of a running transformers model: queries and keys before and after RoPE.

    import dump_hook                      # scripts/ on PYTHONPATH
    with dump_hook.record(model, "dump.npz", layer=0):
        model(**inputs)                   # or model.generate(...): the first pass counts

    poslab probe --query-input dump.npz:q_in --query-output dump.npz:q_out --key-input dump.npz:k_in \\
      --key-output dump.npz:k_out --positions-input dump.npz:positions --model PATH_OF_THE_MODEL

For the time of the block the `apply_rotary_pos_emb` of the model's own module is wrapped; `layer` counts its calls,
which are the layers that rotate, from 0. Positions are those that the model's rotary embedding was asked for.
"""

import contextlib
import functools
import sys

import numpy as np

FUNCTION = "apply_rotary_pos_emb"


def to_numpy(tensor):
    tensor = tensor.detach().cpu()
    if "bfloat16" in str(tensor.dtype):
        tensor = tensor.float()  # exact; numpy has no bf16
    return np.array(tensor.numpy())


class Recorder:
    def __init__(self, layer):
        self.layer, self.calls, self.arrays = layer, 0, {}

    def wrap(self, function):
        @functools.wraps(function)
        def rotate(q, k, *args, **kwargs):
            mine = self.calls == self.layer
            self.calls += 1
            before = (to_numpy(q), to_numpy(k)) if mine else None
            result = function(q, k, *args, **kwargs)
            if mine:
                names = ("q_in", "k_in", "q_out", "k_out")
                self.arrays.update(zip(names, (*before, to_numpy(result[0]), to_numpy(result[1]))))
            return result
        return rotate

    def see_positions(self, module, args, kwargs=None):
        position_ids = (kwargs or {}).get("position_ids", args[1] if len(args) > 1 else None)
        if position_ids is not None and "positions" not in self.arrays:
            self.arrays["positions"] = to_numpy(position_ids)


def modules_of(model):
    """The Python modules that define the model's parts, where they have the function."""
    names = {type(part).__module__ for part in model.modules()}
    return [sys.modules[name] for name in sorted(names) if hasattr(sys.modules.get(name), FUNCTION)]


@contextlib.contextmanager
def record(model, path, layer=0):
    """Records one layer of the first forward pass inside the block, and writes `path` (.npz) at its end."""
    homes = modules_of(model)
    if not homes:
        raise ValueError(f"the code of {type(model).__name__} has no {FUNCTION}")
    recorder = Recorder(layer)
    kept = [(home, getattr(home, FUNCTION)) for home in homes]
    rotaries = [part for part in model.modules() if type(part).__name__.endswith("RotaryEmbedding")]
    hooks = [part.register_forward_pre_hook(recorder.see_positions, with_kwargs=True) for part in rotaries]
    for home, function in kept:
        setattr(home, FUNCTION, recorder.wrap(function))
    try:
        yield recorder
    finally:
        for home, function in kept:
            setattr(home, FUNCTION, function)
        for hook in hooks:
            hook.remove()
    if "q_out" not in recorder.arrays:
        raise ValueError(f"layer {layer} never rotated: {FUNCTION} was called {recorder.calls} times")
    np.savez(path, **recorder.arrays)


if __name__ == "__main__":
    print(__doc__)
