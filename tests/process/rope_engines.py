"""Engines of RoPE written with numpy from the formulas, right ones under several roundings and wrong ones with one
planted mistake each, drawn at random from a seed. test_probe_engines.py asks `poslab probe` about them."""

import math

import numpy as np

BASES = (10000.0, 26000.0, 150000.0, 500000.0, 1e6, 1e7)
F32 = np.float32


def to_bf16(values):
    bits = np.asarray(values, F32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(F32)


STORES = {"f32": lambda x: np.asarray(x, F32), "bf16": to_bf16, "f16": lambda x: np.asarray(x, F32).astype("f2")}


class Model:
    """What is meant: flags for poslab and the frequencies in double."""

    def __init__(self, rng, scaling=None, head_dim=None):
        self.head_dim = head_dim or int(rng.choice([32, 64, 80, 96, 128, 256]))
        share = rng.choice([1, 1, 1, 0.5])
        self.dim = int(self.head_dim * share) // 2 * 2
        self.base = float(rng.choice(BASES))
        self.layout = str(rng.choice(["half", "interleaved"]))
        self.scaling = scaling or str(rng.choice(["default", "linear", "yarn", "llama3", "dynamic", "longrope"]))
        self.gain = 1.0
        self.factor, self.original = float(rng.choice([2, 4, 8, 32])), float(rng.choice([2048, 4096, 8192]))
        self.slow, self.fast, self.low, self.high = 1.0, 32.0, 1.0, 4.0
        self.short = [float(v) for v in np.round(1 + rng.random(self.dim // 2), 3)]
        self.flags = ["--layout", self.layout, "--rope-theta", repr(self.base), "--head-dim", self.head_dim,
                      "--rotary-dim", self.dim]
        if self.scaling != "default":
            self.flags += ["--rope-type", self.scaling, "--factor", repr(self.factor)]
        if self.scaling in ("yarn", "llama3", "longrope"):
            self.flags += ["--original-max-position-embeddings", int(self.original)]
        if self.scaling == "dynamic":
            self.flags += ["--max-position-embeddings", int(self.original), "--seq-len", int(3 * self.original)]
        if self.scaling == "longrope":
            joined = ",".join(map(repr, self.short))
            self.flags += ["--short-factor", joined, "--long-factor", joined, "--seq-len", 100]
        if self.scaling == "yarn":
            self.gain = 0.1 * math.log(self.factor) + 1
        if self.scaling == "longrope":
            self.gain = math.sqrt(1 + math.log(self.factor) / math.log(self.original))

    def plain(self, base=None, t=float):
        exponent = (np.arange(0, self.dim, 2).astype(t) / t(self.dim)).astype(t)
        return (t(1) / (t(base or self.base) ** exponent).astype(t)).astype(t)

    def frequencies(self, t=float, **changed):
        """In t, float or float32, each operation rounded to it."""
        with_changes = {**self.__dict__, **changed}
        base, k, original = with_changes["base"], t(with_changes["factor"]), t(with_changes["original"])
        w = self.plain(base, t)
        if self.scaling == "linear":
            w = w / k
        elif self.scaling == "dynamic":
            stretched = base * (float(k) * 3 - (float(k) - 1)) ** (self.dim / (self.dim - 2))
            w = self.plain(stretched, t)
        elif self.scaling == "longrope":
            w = w / np.array(self.short).astype(t)
        elif self.scaling == "llama3":
            low, high = with_changes["low"], with_changes["high"]
            turns = original * w / t(2 * math.pi)
            keep = np.clip((turns - t(low)) / t(high - low), t(0), t(1)).astype(t)
            w = np.where(turns > high, w, np.where(turns < low, w / k, (t(1) - keep) * w / k + keep * w))
        elif self.scaling == "yarn":
            def edge(rotations):
                return self.dim * math.log(float(original) / (2 * math.pi * rotations)) / (2 * math.log(base))
            lo = max(math.floor(edge(with_changes["fast"])), 0)
            hi = min(math.ceil(edge(with_changes["slow"])), self.dim - 1)
            hi = hi + 0.001 if hi == lo else hi
            ramp = np.clip((np.arange(self.dim // 2).astype(t) - t(lo)) / t(hi - lo), t(0), t(1)).astype(t)
            w = (w / k) * ramp + w * (t(1) - ramp)
        return w.astype(t)

    def channels(self, layout=None):
        i = np.arange(self.dim // 2)
        return (i, i + self.dim // 2) if (layout or self.layout) == "half" else (2 * i, 2 * i + 1)


def angles_of(model, profile, positions):
    """[..., pairs] in double, rounded on the way as the profile says."""
    p = positions[..., None]
    if profile in ("f64", "f32_table"):
        return p * model.frequencies()
    if profile == "hf":
        return (p.astype(F32) * model.frequencies(F32)).astype(F32).astype(float)
    if profile == "f32_inv_freq":
        return (p.astype(F32) * model.frequencies().astype(F32)).astype(F32).astype(float)
    # ggml: a running product over the pairs, divided and scaled afterwards
    step = F32(model.base) ** F32(-2.0 / model.dim)
    ratio = (model.frequencies() / model.plain()).astype(F32)
    theta, out = positions.astype(F32), []
    for i in range(model.dim // 2):
        out.append((theta * ratio[i]).astype(F32))
        theta = (theta * step).astype(F32)
    return np.stack(out, -1).astype(float)


def rotate(model, x, angle, gain=None, store="f32", exact=False, form=None, layouts=None):
    """x [B, H, T, D]; angle broadcasts to [B, H, T, pairs]."""
    t = float if exact else F32
    gain = model.gain if gain is None else gain
    c, s = (t(gain) * np.cos(angle).astype(t)).astype(t), (t(gain) * np.sin(angle).astype(t)).astype(t)
    read, write = layouts or (model.layout, model.layout)
    (a, b), (to_a, to_b) = model.channels(read), model.channels(write)
    xa, xb = x[..., a].astype(t), x[..., b].astype(t)
    form = form or (lambda xa, xb, c, s: (xa * c - xb * s, xb * c + xa * s))
    ya, yb = form(xa, xb, c, s)
    y = np.array(x, t)
    y[..., to_a], y[..., to_b] = ya, yb
    return STORES[store](y)


def draw_positions(rng, length=None):
    kind = rng.integers(4)
    length = length or int(rng.choice([8, 12, 40, 200]))
    if kind == 0:
        return np.arange(length)
    if kind == 1:
        return np.arange(length) + int(rng.integers(1, 5000))
    near, far = np.arange(length // 2 + 2), np.unique(rng.integers(100, 20000, length // 2))
    if kind == 2:
        far = np.unique(np.append(far, 131071))
    return np.concatenate([near, far])


def vectors(rng, model, positions, store, heads=None, batch=None):
    batch, heads = batch or int(rng.choice([1, 2, 3])), heads or int(rng.choice([1, 2, 4]))
    scale = float(rng.choice([0.01, 1, 1, 30]))
    return STORES[store](rng.standard_normal((batch, heads, len(positions), model.head_dim)) * scale)


def right_engine(seed):
    rng = np.random.default_rng([1, seed])
    model = Model(rng)
    profile = str(rng.choice(["f64", "f32_table", "hf", "f32_inv_freq", "ggml"]))
    store = str(rng.choice(["f32", "f32", "f32", "bf16", "f16"]))
    positions = draw_positions(rng)
    x = vectors(rng, model, positions, store)
    y = rotate(model, x, angles_of(model, profile, positions), store=store, exact=profile == "f64")
    return {"name": f"right {seed} {model.scaling} {profile} {store}", "flags": model.flags, "x": x, "y": y,
            "positions": positions, "verdict": ("match", "undecided") if store != "f32" else ("match",), "word": None,
            "where": {}}


def wrong_engine(seed, kind=None):
    rng = np.random.default_rng([2, seed])
    kind = kind or sorted(MISTAKES)[seed % len(MISTAKES)]
    scaling = next((s for s in ("llama3", "yarn") if kind.startswith(s)), None)
    model = Model(rng, scaling)
    while scaling and model.dim < 48:  # too few pairs for the ramp to show
        model = Model(rng, scaling)
    store = str(rng.choice(["f32", "f32", "bf16", "f16"])) if kind in GROSS else "f32"
    length = int(rng.choice([12, 24, 60]))
    positions = np.concatenate([np.arange(length), np.sort(rng.choice(np.arange(9000, 30000), 4, replace=False))])
    x = vectors(rng, model, positions, store, heads=4, batch=3)
    y, given, word, where = MISTAKES[kind](rng, model, x, positions, lambda angle, **k: rotate(model, x, angle, store=store, **k))
    return {"name": f"{kind} {seed} {model.scaling} {model.layout} {model.head_dim} {store}", "flags": model.flags,
            "x": x, "y": y, "positions": given, "verdict": ("mismatch",), "word": word, "where": where}


MISTAKES = {}
GROSS = {"pairing", "not_rotated", "shifted", "doubled", "sin_cos", "minus", "second", "overwritten", "written", "other_table",
         "negative", "reversed", "degrees", "left_padding", "one_row_still", "one_head_ahead", "by_head", "head_position",
         "base"}


def mistake(function):
    MISTAKES[function.__name__] = function
    return function


def grid(positions, change=lambda b, h, t, p: p, batch=3, heads=4):
    b, h, t = np.meshgrid(np.arange(batch), np.arange(heads), np.arange(len(positions)), indexing="ij")
    return change(b, h, t, positions[None, None, :] + 0 * b)


def other(layout):
    return "half" if layout == "interleaved" else "interleaved"


@mistake
def pairing(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), layouts=(other(m.layout),) * 2), p, "pairing swapped", {}


@mistake
def written(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), layouts=(m.layout, other(m.layout))), p, "written in the other layout", {}


@mistake
def not_rotated(rng, m, x, p, run):
    return run(0 * p[:, None] * m.frequencies()), p, "not rotated", {}


@mistake
def shifted(rng, m, x, p, run):
    return run((p + int(rng.choice([-2, 1, 2, 37])))[:, None] * m.frequencies()), p, "positions shifted", {}


@mistake
def doubled(rng, m, x, p, run):
    return run((2 * p)[:, None] * m.frequencies()), p, "positions doubled" if m.scaling != "linear" else "", {}


@mistake
def negative(rng, m, x, p, run):
    return run(-p[:, None] * m.frequencies()), p, "negative angle", {}


@mistake
def reversed_pairs(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies()[::-1]), p, "pairs reversed", {}


@mistake
def degrees(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies() * math.pi / 180), p, "degrees used as radians", {}


@mistake
def base(rng, m, x, p, run):
    other_base = float(rng.choice([b for b in BASES if b != m.base]))
    return run(p[:, None] * m.frequencies(base=other_base)), p, "base", {}


@mistake
def sin_cos(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), form=lambda a, b, c, s: (a * s - b * c, b * s + a * c)), p, \
        "sin and cos swapped", {}


@mistake
def minus(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), form=lambda a, b, c, s: (a * c + b * s, b * c + a * s)), p, "minus missing", {}


@mistake
def second(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), form=lambda a, b, c, s: (a * c - b * s, b * c - a * s)), p, "sign wrong", {}


@mistake
def overwritten(rng, m, x, p, run):
    def form(a, b, c, s):
        first = a * c - b * s
        return first, b * c + first * s
    return run(p[:, None] * m.frequencies(), form=form), p, "first half overwritten", {}


@mistake
def other_table(rng, m, x, p, run):
    a, b = m.channels()
    n, theirs = m.dim // 2, other(m.layout)
    column = (lambda c: c // 2) if theirs == "interleaved" else (lambda c: c % n)
    w = m.frequencies()
    fa, fb = p[:, None] * w[column(a)], p[:, None] * w[column(b)]
    g = m.gain
    return run(0 * fa, form=lambda xa, xb, c, s: (g * (xa * np.cos(fa) - xb * np.sin(fa)),
                                                  g * (xb * np.cos(fb) + xa * np.sin(fb)))), p, "table of the other layout", {}


@mistake
def left_padding(rng, m, x, p, run):
    pads = np.array([0, int(rng.integers(1, 6)), int(rng.integers(6, 10))])
    length = len(p)
    given = np.maximum(np.arange(length)[None, :] - pads[:, None], 0)
    used = grid(np.arange(length))
    return run(used[..., None] * m.frequencies()), given, "left padding ignored", {"wrong_rows": [1, 2]}


@mistake
def one_row_still(rng, m, x, p, run):
    row = int(rng.integers(3))
    used = grid(p, lambda b, h, t, p: np.where(b == row, 0, p))
    return run(used[..., None] * m.frequencies()), p, "not rotated", {"wrong_rows": [row]}


@mistake
def one_head_ahead(rng, m, x, p, run):
    head, by = int(rng.integers(4)), int(rng.choice([-1, 1, 3]))
    used = grid(p, lambda b, h, t, p: np.where(h == head, p + by, p))
    return run(used[..., None] * m.frequencies()), p, "positions shifted", {"wrong_heads": [head]}


@mistake
def by_head(rng, m, x, p, run):
    used = grid(p, lambda b, h, t, p: p + h)
    return run(used[..., None] * m.frequencies()), p, "head", {"wrong_heads": [1, 2, 3]}


@mistake
def head_position(rng, m, x, p, run):
    return run(grid(p, lambda b, h, t, p: h)[..., None] * m.frequencies()), p, "head used as position", {}


@mistake
def clamped(rng, m, x, p, run):
    limit = int(p[-int(rng.choice([2, 3, 4]))])
    return run(np.minimum(p, limit)[:, None] * m.frequencies()), p, "positions clamped", \
        {"first_wrong_position": float(p[p > limit][0])}


@mistake
def wrapped(rng, m, x, p, run):
    size = int(rng.choice([4096, 8192]))
    return run((p % size)[:, None] * m.frequencies()), p, "positions wrapped", \
        {"first_wrong_position": float(p[p >= size][0])}


@mistake
def restarted(rng, m, x, p, run):
    given, chunk = np.arange(len(p)), int(rng.choice([4, 5, 7]))
    return run((given % chunk)[:, None] * m.frequencies()), given, "positions restarted", {"first_wrong_position": chunk}


@mistake
def packed(rng, m, x, p, run):
    given = np.arange(len(p))
    cut = int(rng.integers(3, len(p) - 3))
    return run(np.where(given < cut, given, given - cut)[:, None] * m.frequencies()), given, "positions restarted", \
        {"first_wrong_position": cut}


@mistake
def decoding_at_zero(rng, m, x, p, run):
    cut = int(rng.integers(3, 10))
    return run(np.where(np.arange(len(p)) < cut, p, 0)[:, None] * m.frequencies()), p, "", \
        {"first_wrong_position": float(p[cut])}


@mistake
def decoding_ahead(rng, m, x, p, run):
    cut = int(rng.integers(3, 10))
    return run((p + (np.arange(len(p)) >= cut))[:, None] * m.frequencies()), p, "positions shifted", \
        {"first_wrong_position": float(p[cut])}


@mistake
def last_pairs_still(rng, m, x, p, run):
    n, count = m.dim // 2, int(rng.choice([1, 2, 5]))
    w = m.frequencies()
    w[n - count:] = 0
    return run(p[:, None] * w), p, "pairs not rotated", {"wrong_pairs": list(range(n - count, n))}


@mistake
def pairs_copied(rng, m, x, p, run):
    n, count = m.dim // 2, int(rng.choice([1, 3]))
    a, b = m.channels()
    y = run(p[:, None] * m.frequencies())
    for i in range(n - count, n):
        y[..., a[i]], y[..., b[i]] = x[..., a[i]], x[..., b[i]]
    return y, p, "pairs not rotated", {"wrong_pairs": list(range(n - count, n))}


@mistake
def one_pair_off(rng, m, x, p, run):
    w, i = m.frequencies(), int(rng.integers(1, m.dim // 2))
    w[i] *= 1.03
    return run(p[:, None] * w), p, "", {"wrong_pairs": [i]}


@mistake
def one_place_off(rng, m, x, p, run):
    """A single pair of one head at one position."""
    a, b = m.channels()
    i, h, t = int(rng.integers(m.dim // 2)), int(rng.integers(4)), int(rng.integers(1, 10))
    y = run(p[:, None] * m.frequencies())
    y[1, h, t, a[i]] -= F32(1e-4) * np.abs(y[1, h, t, b[i]]) + F32(1e-4) * np.abs(y[1, h, t, a[i]])
    return y, p, "", {"wrong_pairs": [i], "wrong_heads": [h], "wrong_rows": [1], "first_wrong_position": float(p[t])}


@mistake
def another_gain(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), gain=m.gain * float(rng.choice([0.5, 1.1, 1.2]))), p, "attention factor", {}


@mistake
def cos_gain(rng, m, x, p, run):
    g = float(rng.choice([0.8, 1.2]))
    return run(p[:, None] * m.frequencies(), form=lambda a, b, c, s: (a * g * c - b * s, b * g * c + a * s)), p, \
        "gain on cos alone", {}


@mistake
def swapped_and_shifted(rng, m, x, p, run):
    return run((p + 1)[:, None] * m.frequencies(), layouts=(other(m.layout),) * 2), p, "pairing swapped and positions shifted", {}


@mistake
def shifted_with_gain(rng, m, x, p, run):
    return run((p + 1)[:, None] * m.frequencies(), gain=1.3 * m.gain), p, "attention factor", {}


@mistake
def llama3_smoothing(rng, m, x, p, run):
    plain = m.plain()
    turns = m.original * plain / (2 * math.pi)
    return run(p[:, None] * np.where(turns > (m.low if seed_bit(rng) else m.high), plain, plain / m.factor)), p, "", {}


def seed_bit(rng):
    return bool(rng.integers(2))


@mistake
def llama3_ignored(rng, m, x, p, run):
    return run(p[:, None] * m.plain()), p, "ignored", {}


@mistake
def llama3_factor(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(factor=3 * m.factor)), p, "another factor", {}


@mistake
def llama3_high(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(high=8.0)), p, "high_freq_factor", {}


@mistake
def yarn_slow(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(slow=4.0)), p, "beta_slow", {}


@mistake
def yarn_fast(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(fast=8.0)), p, "beta_fast", {}


@mistake
def yarn_inverted(rng, m, x, p, run):
    plain = m.plain()
    return run(p[:, None] * (plain + plain / m.factor - m.frequencies())), p, "ramp", {}


@mistake
def yarn_length(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(original=4 * m.original)), p, "original length", {}


@mistake
def yarn_gain_squared(rng, m, x, p, run):
    return run(p[:, None] * m.frequencies(), gain=m.gain ** 2), p, "attention factor squared", {}
