#!/usr/bin/env python3
"""Writes tests/golden/multi_axis.json: what transformers' own classes make of positions on several axes. Needs torch and
transformers.

    scripts/make_multi_axis_golden.py > tests/golden/multi_axis.json

`rotations`: positions [n_axes][T], and one vector per token rotated by the class, input[c] = ((37 c mod 101) - 50.5) / 32.
`output` is the class's own code with every float32 in it taken for float64; `output_f32` is the class as it is.
`positions`: what get_rope_index gives for texts with images and videos (grids in tokens, after merging), and the patch
coordinates of vision towers (grids in patches).
"""

import contextlib
import json

import torch
import transformers
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie
from transformers.models.glm4v import modeling_glm4v as glm4v
from transformers.models.pixtral import modeling_pixtral as pixtral
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5_vl
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen3_5
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl
from transformers.vision_utils import get_vision_position_ids


@contextlib.contextmanager
def in_double():
    kept = torch.float, torch.float32, torch.Tensor.float
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = kept


def vector(head_dim, dtype):
    return torch.tensor([((37 * c % 101) - 50.5) / 32 for c in range(head_dim)], dtype=dtype)


def short(tensor):
    """An f32 value has no more than nine digits."""
    return [[float(f"{v:.9g}") for v in row] for row in tensor.tolist()]


def text_rotation(module, rotary_class, config, positions, head_dim, dtype):
    rotary = rotary_class(config)
    x = vector(head_dim, dtype).expand(1, 1, positions.shape[1], head_dim)
    cos, sin = rotary(x, positions[:, None, :])
    return module.apply_rotary_pos_emb(x, x, cos, sin)[0][0, 0]


def text_case(name, form, module, prefix, settings, sections, positions, rope=None):
    """One head of a text model: `settings` are those of its config."""
    head_dim, theta = settings["head_dim"], (rope or {}).get("rope_theta", 10000.0)
    parameters = {"rope_type": "default", "rope_theta": theta, "mrope_section": sections} | (rope or {})
    ids = torch.tensor(positions)
    config = getattr(module, prefix + "TextConfig")(
        hidden_size=2 * head_dim, num_attention_heads=2, num_key_value_heads=2, rope_parameters=parameters, **settings)
    rotary_class = getattr(module, prefix + "TextRotaryEmbedding", None) or getattr(module, prefix + "RotaryEmbedding")
    with in_double():
        wide = text_rotation(module, rotary_class, config, ids, head_dim, torch.float64)
    narrow = text_rotation(module, rotary_class, config, ids, head_dim, torch.float32)
    rotary_dim = int(head_dim * parameters.get("partial_rotary_factor", 1))
    return dict(name=name, form=form, head_dim=head_dim, rotary_dim=rotary_dim, rope_theta=theta, sections=sections,
                positions=positions, output=wide.tolist(), output_f32=short(narrow))


def vision_rotation(module, rotary_class, apply, config, positions, head_dim, dtype):
    rotary = rotary_class(config)
    x = vector(head_dim, dtype).expand(positions.shape[1], 1, head_dim)
    cos, sin = rotary(x, positions.T)
    return apply(x, x, cos, sin)


def vision_case(name, form, module, rotary, config, apply, head_dim, theta, positions):
    ids = torch.tensor(positions)
    rotary_class = getattr(module, rotary)
    with in_double():
        wide = vision_rotation(module, rotary_class, apply, config, ids, head_dim, torch.float64)
    narrow = vision_rotation(module, rotary_class, apply, config, ids, head_dim, torch.float32)
    return dict(name=name, form=form, head_dim=head_dim, rotary_dim=head_dim, rope_theta=theta, sections=[],
                positions=positions, output=wide.tolist(), output_f32=short(narrow))


def dinov3_case(name, head_dim, grid, theta):
    config = dinov3.DINOv3ViTConfig(hidden_size=head_dim, num_attention_heads=1, image_size=[8 * n for n in grid],
                                    patch_size=8, rope_theta=theta)

    def run(dtype):
        rotary = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()
        cos, sin = rotary(torch.zeros(1, 3, 8 * grid[0], 8 * grid[1], dtype=dtype))
        x = vector(head_dim, dtype).expand(1, 1, grid[0] * grid[1], head_dim)
        return dinov3.apply_rotary_pos_emb(x, x, cos, sin)[0][0, 0]

    with in_double():
        wide = run(torch.float64)
        coordinates = dinov3.get_patches_center_coordinates(*grid, dtype=torch.float64, device="cpu")
    return dict(name=name, form="dinov3", head_dim=head_dim, rotary_dim=head_dim, rope_theta=theta, sections=[],
                positions=coordinates.T.tolist(), output=wide.tolist(), output_f32=short(run(torch.float32))), dict(
                    name=name, rule="patch_centres", segments=[["image", 1, *grid]], positions=coordinates.T.tolist())


def rope_index(name, module, prefix, segments, merge, rule, seconds=None):
    """`segments` as a reader writes them: ["text", n] or ["image" | "video", t, h, w] in tokens."""
    kinds, grids = [], {"image": [], "video": []}
    for kind, *numbers in segments:
        if kind == "text":
            kinds += [0] * numbers[0]
            continue
        t, h, w = numbers
        kinds += [1 if kind == "image" else 2] * (t * h * w)
        grids[kind].append([t, h * merge, w * merge])
    config = getattr(module, prefix + "Config")()
    config.vision_config.spatial_merge_size = merge
    model = object.__new__(getattr(module, prefix + "Model"))
    torch.nn.Module.__init__(model)
    model.config = config
    ids = torch.zeros(1, len(kinds), dtype=torch.long)
    extra = {} if seconds is None else {"second_per_grid_ts": torch.tensor(seconds)}
    positions, delta = model.get_rope_index(
        ids, mm_token_type_ids=torch.tensor([kinds], dtype=torch.int),
        image_grid_thw=torch.tensor(grids["image"]) if grids["image"] else None,
        video_grid_thw=torch.tensor(grids["video"]) if grids["video"] else None, **extra)
    found = dict(name=name, rule=rule, segments=segments, positions=positions[:, 0].tolist(), delta=int(delta[0, 0]))
    if seconds is not None:
        found["frame_step"] = config.vision_config.tokens_per_second * seconds[0]
    return found


def tower(name, grid, merge):
    t, h, w = grid
    found = get_vision_position_ids(torch.tensor([grid]), merge)
    return dict(name=name, rule="tower", merge=merge, segments=[["video" if t > 1 else "image", t, h, w]],
                positions=found.T.tolist())


def main():
    image = [["text", 3], ["image", 1, 2, 3], ["text", 2]]
    two = [["text", 2], ["image", 1, 3, 2], ["text", 1], ["image", 1, 4, 5], ["text", 3]]
    first = [["image", 1, 5, 1], ["text", 2]]
    clip = [["text", 2], ["video", 2, 4, 3], ["text", 2]]
    tall_clip = [["text", 2], ["video", 6, 2, 2], ["text", 3]]
    frames = [["text", 2], ["video", 1, 2, 3], ["text", 1], ["video", 1, 2, 3], ["text", 2]]
    positions = [
        rope_index("qwen2_vl image", qwen2_vl, "Qwen2VL", image, 2, "max_plus_one"),
        rope_index("qwen2_vl two images", qwen2_vl, "Qwen2VL", two, 2, "max_plus_one"),
        rope_index("qwen2_vl image first", qwen2_vl, "Qwen2VL", first, 2, "max_plus_one"),
        rope_index("qwen2_vl video", qwen2_vl, "Qwen2VL", clip, 2, "max_plus_one"),
        rope_index("qwen2_vl video longer than tall", qwen2_vl, "Qwen2VL", tall_clip, 2, "spatial_extent"),
        rope_index("qwen2_5_vl video, 1 second a frame", qwen2_5_vl, "Qwen2_5_VL", clip, 2, "spatial_extent", [1.0]),
        rope_index("qwen2_5_vl video, 0.3 seconds a frame", qwen2_5_vl, "Qwen2_5_VL", tall_clip, 2, "spatial_extent",
                   [0.3]),
        rope_index("qwen3_vl image", qwen3_vl, "Qwen3VL", image, 2, "max_plus_one"),
        tower("qwen2_vl tower, image", [1, 4, 6], 2),
        tower("qwen2_vl tower, video", [3, 2, 4], 2),
        tower("tower without merging", [1, 3, 4], 1),
    ]
    # qwen3_vl is told of one video whose frames stand apart in the text.
    split = rope_index("qwen3_vl video, a frame at a time", qwen3_vl, "Qwen3VL", frames, 2, "max_plus_one")
    positions.append(split)

    by_name = {p["name"]: p["positions"] for p in positions}
    far = [[0, 7, 4095, 131072], [0, 1000, 4096, 131075], [0, 3, 5000, 131071]]
    rotations = [
        text_case("qwen2_vl", "mrope", qwen2_vl, "Qwen2VL", dict(head_dim=32), [4, 6, 6], by_name["qwen2_vl two images"]),
        text_case("qwen2_vl as released", "mrope", qwen2_vl, "Qwen2VL", dict(head_dim=128), [16, 24, 24], far,
                  dict(rope_theta=1000000.0)),
        text_case("glm4v, pairs side by side", "mrope", glm4v, "Glm4v", dict(head_dim=32), [4, 6, 6],
                  by_name["qwen2_vl image"]),
        text_case("qwen3_vl", "mrope_alternate", qwen3_vl, "Qwen3VL", dict(head_dim=32), [6, 5, 5],
                  by_name["qwen2_vl two images"]),
        text_case("qwen3_vl as released", "mrope_alternate", qwen3_vl, "Qwen3VL", dict(head_dim=128), [24, 20, 20], far,
                  dict(rope_theta=5000000.0)),
        text_case("qwen3_5, a quarter rotates", "mrope_alternate", qwen3_5, "Qwen3_5", dict(head_dim=256),
                  [11, 11, 10], far, dict(rope_theta=10000000.0, partial_rotary_factor=0.25)),
        text_case("ernie4_5_vl", "mrope_space_first", ernie, "Ernie4_5_VLMoe", dict(head_dim=32), [5, 5, 6],
                  by_name["qwen2_vl two images"]),
    ]
    tower_config = qwen2_vl.Qwen2VLVisionConfig(embed_dim=160, num_heads=2)
    small_tower = qwen2_vl.Qwen2VLVisionConfig(embed_dim=32, num_heads=2)
    rotations += [
        vision_case("qwen2_vl tower", "vision_axial", qwen2_vl, "Qwen2VLVisionRotaryEmbedding", small_tower,
                    lambda q, k, cos, sin: qwen2_vl.apply_rotary_pos_emb_vision(q, k, cos, sin)[0][:, 0], 16, 10000.0,
                    by_name["qwen2_vl tower, image"]),
        vision_case("qwen2_vl tower as released", "vision_axial", qwen2_vl, "Qwen2VLVisionRotaryEmbedding", tower_config,
                    lambda q, k, cos, sin: qwen2_vl.apply_rotary_pos_emb_vision(q, k, cos, sin)[0][:, 0], 80, 10000.0,
                    [[0, 1, 17, 300], [0, 5, 2, 171]]),
        vision_case("pixtral", "pixtral", pixtral, "PixtralVisionRotaryEmbedding",
                    pixtral.PixtralVisionConfig(hidden_size=32, num_attention_heads=2),
                    lambda q, k, cos, sin: pixtral.apply_rotary_pos_emb(q, k, cos, sin)[0][:, 0], 16, 10000.0,
                    by_name["tower without merging"]),
        vision_case("pixtral as released", "pixtral", pixtral, "PixtralVisionRotaryEmbedding",
                    pixtral.PixtralVisionConfig(hidden_size=1024, num_attention_heads=16),
                    lambda q, k, cos, sin: pixtral.apply_rotary_pos_emb(q, k, cos, sin)[0][:, 0], 64, 10000.0,
                    [[0, 1, 17, 63], [0, 5, 2, 41]]),
    ]
    for name, head_dim, grid, theta in [("dinov3", 16, [2, 3], 100.0), ("dinov3 as released", 64, [14, 3], 100.0)]:
        rotation, coordinates = dinov3_case(name, head_dim, grid, theta)
        rotations.append(rotation)
        positions.append(coordinates)
    about = f"transformers {transformers.__version__} on torch {torch.__version__}, through scripts/make_multi_axis_golden.py"
    print(json.dumps(dict(about=about, rotations=rotations, positions=positions)))


if __name__ == "__main__":
    main()
