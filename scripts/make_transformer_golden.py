#!/usr/bin/env python3
"""Writes tests/golden/transformer_settings.json: small models of settings that the other references lack, by torch's
own gradients in double. Needs numpy and torch.

    scripts/make_transformer_golden.py > tests/golden/transformer_settings.json

A case holds its settings (TransformerConfig's names), the loss and the gradient's norm before each of three steps of
AdamW, each tensor's gradient at the first one as a sum over weights `probes`, and the last position's logits before and
after the steps. Tensors in the order of their names, then as many probes, are drawn from numpy's default_rng(seed):
0.3 times a normal, and 1 more for the gains of norms.
"""

import json
import math

import numpy as np
import torch
import torch.nn.functional as F

BATCH, LENGTH, VOCABULARY = 2, 19, 7
GPT = dict(norm="layer_norm", mlp="gelu", qkv_bias=True, o_bias=True, mlp_bias=True, tied_head=True, n_kv_heads=4)
LLAMA = dict(norm="rms_norm", mlp="swiglu", qkv_bias=False, o_bias=False, mlp_bias=False, tied_head=False, n_kv_heads=2)
ROPE = dict(encoding="rope", layout="half", rotary_dim=8, rope_theta=10000.0, rope_type="default")
CASES = {
    "sinusoidal": GPT | dict(encoding="sinusoidal"),
    "sinusoidal, odd width, llama": LLAMA | dict(encoding="sinusoidal", d_model=15),
    "t5": GPT | dict(encoding="t5"),
    "t5 in a window, one kv head": LLAMA | dict(encoding="t5", attention_window=6, n_kv_heads=1, mlp="gelu"),
    "learned, llama": LLAMA | dict(encoding="learned"),
    "none, tied": LLAMA | dict(encoding="none", tied_head=True),
    "alibi, 6 heads": LLAMA | dict(encoding="alibi", n_heads=6, n_kv_heads=3, norm="layer_norm", qkv_bias=True),
    "kerple": LLAMA | dict(encoding="kerple"),
    "kerple, gpt": GPT | dict(encoding="kerple", n_kv_heads=1, tied_head=False),
    "fire": LLAMA | dict(encoding="fire", fire_length=6.0),
    "fire, gpt": GPT | dict(encoding="fire", fire_length=40.0, attention_window=7),
    "xpos": LLAMA | ROPE | dict(encoding="xpos", rope_theta=100.0),
    "xpos, partial, interleaved": GPT | ROPE | dict(encoding="xpos", layout="interleaved", rotary_dim=6),
    "rope interleaved, all biases": LLAMA | ROPE | dict(layout="interleaved", qkv_bias=True, o_bias=True, mlp_bias=True),
    "rope partial, one kv head": GPT | ROPE | dict(rotary_dim=4, n_kv_heads=1, rope_theta=50.0),
    "rope partial in a window": LLAMA | ROPE | dict(rotary_dim=2, attention_window=5, layout="interleaved", tied_head=True),
    "linear, narrow heads": LLAMA | ROPE | dict(rope_type="linear", factor=3.0, head_dim=4, rotary_dim=4, n_kv_heads=4),
    "ntk": LLAMA | ROPE | dict(rope_type="ntk", factor=4.0, o_bias=True),
    "dynamic beyond its length": LLAMA | ROPE | dict(rope_type="dynamic", factor=2.0, max_position_embeddings=8),
    "yarn, all of its keys": LLAMA
    | ROPE
    | dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=0.01,
           attention_factor=1.25),
    "llama3": LLAMA
    | ROPE
    | dict(rope_type="llama3", factor=8.0, original_max_position_embeddings=64, low_freq_factor=1.0,
           high_freq_factor=4.0, mlp_bias=True),
    "longrope beyond its length": LLAMA
    | ROPE
    | dict(rope_type="longrope", factor=4.0, original_max_position_embeddings=16,
           short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.5, 2.0, 3.0, 4.0]),
}
COMMON = dict(d_model=16, n_layers=2, n_heads=4, head_dim=8, d_ff=20, max_position_embeddings=32, attention_window=0)


def tensors_of(c):
    """Shapes by name, as Hugging Face's Llama has them."""
    d, heads = c["d_model"], c["n_heads"]
    q, kv = heads * c["head_dim"], c["n_kv_heads"] * c["head_dim"]
    shapes = {"model.embed_tokens.weight": (VOCABULARY, d)}

    def norm(name):
        shapes[name + ".weight"] = (d,)
        if c["norm"] == "layer_norm":
            shapes[name + ".bias"] = (d,)

    def linear(name, out, into, bias):
        shapes[name + ".weight"] = (out, into)
        if bias:
            shapes[name + ".bias"] = (out,)

    for layer in range(c["n_layers"]):
        at = f"model.layers.{layer}."
        norm(at + "input_layernorm")
        for name, out in (("q", q), ("k", kv), ("v", kv)):
            linear(f"{at}self_attn.{name}_proj", out, d, c["qkv_bias"])
        linear(at + "self_attn.o_proj", d, q, c["o_bias"])
        norm(at + "post_attention_layernorm")
        for name in ("gate", "up") if c["mlp"] == "swiglu" else ("up",):
            linear(f"{at}mlp.{name}_proj", c["d_ff"], d, c["mlp_bias"])
        linear(at + "mlp.down_proj", d, c["d_ff"], c["mlp_bias"])
    norm("model.norm")
    if not c["tied_head"]:
        shapes["lm_head.weight"] = (VOCABULARY, d)
    own = {
        "learned": {"embed_positions.weight": (c["max_position_embeddings"], d)},
        "t5": {"relative_attention_bias.weight": (32, heads)},
        "kerple": {"kerple.log_r1": (heads,), "kerple.log_r2": (heads,)},
        "fire": {"fire.hidden.weight": (32, 1), "fire.hidden.bias": (32,), "fire.out.weight": (heads, 32),
                 "fire.out.bias": (heads,), "fire.log_c": (1,), "fire.log_length": (1,)},
    }
    shapes |= {"model." + name: shape for name, shape in own.get(c["encoding"], {}).items()}
    return dict(sorted(shapes.items()))


def frequencies(c):
    """Inverse frequencies and what multiplies cos and sin."""
    dim, theta, kind = c["rotary_dim"], c["rope_theta"], c["rope_type"]
    pair = torch.arange(dim // 2, dtype=torch.float64)
    plain = theta ** (-2 * pair / dim)
    k, original = c.get("factor", 1.0), c.get("original_max_position_embeddings")
    if kind == "linear":
        return plain / k, 1.0
    if kind == "ntk":
        return (theta * k ** (dim / (dim - 2))) ** (-2 * pair / dim), 1.0
    if kind == "dynamic":
        longer = k * LENGTH / c["max_position_embeddings"] - (k - 1)
        return (theta * longer ** (dim / (dim - 2))) ** (-2 * pair / dim), 1.0
    if kind == "yarn":
        def turns(n):
            return dim * math.log(original / (2 * math.pi * n)) / (2 * math.log(theta))
        low = max(math.floor(turns(c["beta_fast"])), 0)
        high = min(math.ceil(turns(c["beta_slow"])), dim - 1)
        ramp = ((pair - low) / (high - low)).clamp(0, 1)
        return plain * (1 - ramp) + plain / k * ramp, c["attention_factor"]
    if kind == "llama3":
        share = (original * plain / (2 * math.pi) - c["low_freq_factor"]) / (c["high_freq_factor"] - c["low_freq_factor"])
        share = share.clamp(0, 1)
        return plain * share + plain / k * (1 - share), 1.0
    if kind == "longrope":
        return plain / torch.tensor(c["long_factor"], dtype=torch.float64), math.sqrt(1 + math.log(k) / math.log(original))
    return plain, 1.0


def rotate(c, x, power):
    """The first rotary_dim channels of x [..., LENGTH, head_dim]; xPos multiplies by its zeta^(power * position)."""
    dim = c["rotary_dim"]
    inverse, amplitude = frequencies(c)
    position = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    if c["encoding"] == "xpos":
        zeta = (torch.arange(0, dim, 2, dtype=torch.float64) / dim + 0.4) / 1.4
        amplitude = zeta ** (power * position / 512)
    cosine, sine = amplitude * (position * inverse).cos(), amplitude * (position * inverse).sin()
    half = c["layout"] == "half"
    a = x[..., : dim // 2] if half else x[..., 0:dim:2]
    b = x[..., dim // 2 : dim] if half else x[..., 1:dim:2]
    turned = (a * cosine - b * sine, a * sine + b * cosine)
    pairs = torch.cat(turned, -1) if half else torch.stack(turned, -1).flatten(-2)
    return torch.cat((pairs, x[..., dim:]), -1)


def score_bias(c, p):
    """[n_heads, LENGTH, LENGTH] or 0."""
    heads, encoding = c["n_heads"], c["encoding"]
    position = torch.arange(LENGTH)
    distance = (position[:, None] - position).clamp(min=0)
    if encoding == "alibi":
        whole = 2 ** int(math.log2(heads))
        slopes = [2 ** (-8 * (h + 1) / whole) for h in range(whole)]
        slopes += [2 ** (-8 * (2 * h + 1) / (2 * whole)) for h in range(heads - whole)]
        return -torch.tensor(slopes, dtype=torch.float64)[:, None, None] * distance
    if encoding == "t5":  # 16 buckets of one token, 16 that grow towards 128 tokens
        far = 16 + (torch.log(distance.clamp(min=1).double() / 16) / math.log(128 / 16) * 16).long()
        bucket = torch.where(distance < 16, distance, far.clamp(max=31))
        return p["model.relative_attention_bias.weight"][bucket].permute(2, 0, 1)
    if encoding == "kerple":
        r1, r2 = (p[f"model.kerple.log_r{i}"].exp()[:, None, None] for i in (1, 2))
        return -r1 * torch.log(1 + r2 * distance)
    if encoding == "fire":
        scale = p["model.fire.log_c"].exp()
        reach = torch.maximum(position.double()[:, None], c["fire_length"] * p["model.fire.log_length"].exp())
        x = torch.log(scale * distance + 1) / torch.log(scale * reach + 1)
        hidden = torch.relu(x[..., None] * p["model.fire.hidden.weight"][:, 0] + p["model.fire.hidden.bias"])
        return (hidden @ p["model.fire.out.weight"].T + p["model.fire.out.bias"]).permute(2, 0, 1)
    return 0.0


def forward(c, p, tokens):
    d, heads, dim = c["d_model"], c["n_heads"], c["head_dim"]
    turns = c["encoding"] in ("rope", "xpos")

    def norm(name, x):
        if c["norm"] == "layer_norm":
            return F.layer_norm(x, (d,), p[name + ".weight"], p[name + ".bias"], 1e-5)
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * p[name + ".weight"]

    def linear(name, x):
        return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))

    def split(x, n):
        return x.view(BATCH, LENGTH, n, dim).transpose(1, 2)

    position = torch.arange(LENGTH)
    distance = position[:, None] - position
    hidden = (distance < 0) | (distance >= (c["attention_window"] or LENGTH))
    bias = score_bias(c, p)
    x = p["model.embed_tokens.weight"][tokens]
    if c["encoding"] == "learned":
        x = x + p["model.embed_positions.weight"][:LENGTH]
    if c["encoding"] == "sinusoidal":
        waves = torch.zeros(LENGTH, d, dtype=torch.float64)
        angles = position[:, None] / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
        waves[:, 0::2] = angles.sin()
        waves[:, 1::2] = angles.cos()[:, : d // 2]
        x = math.sqrt(d) * x + waves
    for layer in range(c["n_layers"]):
        at = f"model.layers.{layer}."
        h = norm(at + "input_layernorm", x)
        q = split(linear(at + "self_attn.q_proj", h), heads)
        k, v = (split(linear(f"{at}self_attn.{n}_proj", h), c["n_kv_heads"]) for n in "kv")
        if turns:
            q, k = rotate(c, q, 1), rotate(c, k, -1)
        k, v = (t.repeat_interleave(heads // c["n_kv_heads"], 1) for t in (k, v))
        scores = (q @ k.transpose(2, 3) / math.sqrt(dim) + bias).masked_fill(hidden, -math.inf)
        seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(BATCH, LENGTH, heads * dim)
        x = x + linear(at + "self_attn.o_proj", seen)
        h = norm(at + "post_attention_layernorm", x)
        up = linear(at + "mlp.up_proj", h)
        inner = F.silu(linear(at + "mlp.gate_proj", h)) * up if c["mlp"] == "swiglu" else F.gelu(up)
        x = x + linear(at + "mlp.down_proj", inner)
    head = "model.embed_tokens.weight" if c["tied_head"] else "lm_head.weight"
    return F.linear(norm("model.norm", x), p[head])


def case(name, seed, c):
    generator = np.random.default_rng(seed)
    shapes = tensors_of(c)
    p = {}
    for tensor, shape in shapes.items():
        value = 0.3 * generator.standard_normal(shape) + (1 if tensor.endswith("norm.weight") else 0)
        p[tensor] = torch.tensor(value, requires_grad=True)
    probes = {tensor: torch.tensor(generator.standard_normal(shape)) for tensor, shape in shapes.items()}
    text = torch.tensor(generator.integers(0, VOCABULARY, (BATCH, LENGTH + 1)))
    tokens, targets = text[:, :-1], text[:, 1:]
    matrices = [t for t in p.values() if t.ndim >= 2]
    vectors = [t for t in p.values() if t.ndim < 2]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    out = {"name": name, "seed": seed, "settings": c, "text": text.tolist(), "losses": [], "gradient_norms": []}
    out["logits"] = forward(c, p, tokens)[:, -1].flatten().tolist()
    for step in range(3):
        optimiser.zero_grad()
        loss = F.cross_entropy(forward(c, p, tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        if step == 0:
            out["gradient_sums"] = {n: float((t.grad * probes[n]).sum()) for n, t in p.items()}
        out["losses"].append(float(loss))
        out["gradient_norms"].append(float(torch.nn.utils.clip_grad_norm_(p.values(), 1.0)))
        optimiser.step()
    out["logits_after"] = forward(c, p, tokens)[:, -1].flatten().tolist()
    return out


def main():
    torch.set_default_dtype(torch.float64)
    cases = [case(name, seed, COMMON | c) for seed, (name, c) in enumerate(CASES.items())]
    print(json.dumps({"torch": torch.__version__, "numpy": np.__version__, "cases": cases}, indent=1))


if __name__ == "__main__":
    main()
