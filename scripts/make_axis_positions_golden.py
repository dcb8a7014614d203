#!/usr/bin/env python3
"""Writes tests/golden/axis_positions.json: the positions that get_rope_index of transformers 4 gives to texts with images
and videos. Needs torch and transformers 4.57 (make_multi_axis_golden.py needs transformers 5).

    scripts/make_axis_positions_golden.py > tests/golden/axis_positions.json
"""

import json

import torch
import transformers
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5_vl
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl

TEXT, IMAGE, VIDEO, VISION_START = 1, 101, 102, 103
MERGE = 2


def rope_index(name, module, prefix, segments, seconds=None):
    """`segments`: ["text", n] or ["image" | "video", t, h, w] in tokens; the text before a grid ends with its mark."""
    ids, grids = [], {"image": [], "video": []}
    for kind, *numbers in segments:
        if kind == "text":
            ids += [TEXT] * numbers[0]
            continue
        t, h, w = numbers
        ids[-1] = VISION_START
        ids += [IMAGE if kind == "image" else VIDEO] * (t * h * w)
        grids[kind].append([t, h * MERGE, w * MERGE])
    config = getattr(module, prefix + "Config")()
    config.vision_config.spatial_merge_size = MERGE
    config.image_token_id, config.video_token_id, config.vision_start_token_id = IMAGE, VIDEO, VISION_START
    model = object.__new__(getattr(module, prefix + "Model"))
    torch.nn.Module.__init__(model)
    model.config = config
    extra = {} if seconds is None else {"second_per_grid_ts": torch.tensor(seconds)}
    positions, delta = model.get_rope_index(
        torch.tensor([ids]), image_grid_thw=torch.tensor(grids["image"]) if grids["image"] else None,
        video_grid_thw=torch.tensor(grids["video"]) if grids["video"] else None, **extra)
    found = dict(name=name, rule="max_plus_one", segments=segments, positions=positions[:, 0].tolist(),
                 delta=int(delta[0, 0]))
    if seconds is not None:
        # This version makes whole numbers of the seconds first.
        found["frame_step"] = config.vision_config.tokens_per_second * int(seconds[0])
    return found


def main():
    two = [["text", 2], ["image", 1, 3, 2], ["text", 1], ["image", 1, 4, 5], ["text", 3]]
    clip = [["text", 2], ["video", 6, 2, 2], ["text", 3]]
    mixed = [["text", 3], ["video", 5, 1, 2], ["text", 2], ["image", 1, 1, 3], ["text", 1]]
    cases = [
        rope_index("qwen2_vl two images", qwen2_vl, "Qwen2VL", two),
        rope_index("qwen2_vl video longer than tall", qwen2_vl, "Qwen2VL", clip),
        rope_index("qwen2_vl video, then an image", qwen2_vl, "Qwen2VL", mixed),
        rope_index("qwen2_5_vl video, 1 second a frame", qwen2_5_vl, "Qwen2_5_VL", clip, [1.0]),
        rope_index("qwen2_5_vl video, 0.3 seconds a frame, cut to 0", qwen2_5_vl, "Qwen2_5_VL", clip, [0.3]),
        rope_index("qwen3_vl two images", qwen3_vl, "Qwen3VL", two),
    ]
    about = f"transformers {transformers.__version__} on torch {torch.__version__}, through scripts/make_axis_positions_golden.py"
    print(json.dumps(dict(about=about, positions=cases)))


if __name__ == "__main__":
    main()
