"""Times one thing the way a numpy or PyTorch user would write it; prints {"seconds": [...], "version": ...}.

    python_peers.py WORK VARIANT --threads N --seconds S      WORK and VARIANT as in WORKS at the end of this file

Thread counts must stand in the environment before numpy and torch are imported, so imports come late.
"""

import argparse
import json
import math
import os
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("variant")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--shape", type=int, nargs="+", required=True)
    return parser.parse_args()


ARGS = parse()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(ARGS.threads)
import numpy as np  # noqa: E402

torch = None
if ARGS.variant.startswith("torch"):
    import torch

    torch.set_num_threads(ARGS.threads)
    torch.set_grad_enabled(False)


def frequencies(width):
    return 10000.0 ** (-np.arange(0, width, 2) / width)


def table(variant, rows, width):
    freq = frequencies(width)
    out = np.empty((rows, width), np.float32)
    block = 256

    def numpy_plain():
        angle = np.arange(rows)[:, None] * freq
        full = np.empty((rows, width))
        full[:, 0::2] = np.sin(angle)
        full[:, 1::2] = np.cos(angle)
        return full.astype(np.float32)

    def numpy_blocks():
        for start in range(0, rows, block):
            angle = np.arange(start, min(start + block, rows))[:, None] * freq
            out[start : start + block, 0::2] = np.sin(angle)
            out[start : start + block, 1::2] = np.cos(angle)

    def numpy_recurrence():
        first = np.arange(block)[:, None] * freq
        sin0, cos0 = np.sin(first), np.cos(first)
        left, right = np.empty_like(sin0), np.empty_like(sin0)
        for start in range(0, rows, block):
            n = min(block, rows - start)
            sin_start, cos_start = np.sin(start * freq), np.cos(start * freq)
            np.multiply(sin0[:n], cos_start, out=left[:n])
            np.multiply(cos0[:n], sin_start, out=right[:n])
            np.add(left[:n], right[:n], out=out[start : start + n, 0::2], casting="same_kind")
            np.multiply(cos0[:n], cos_start, out=left[:n])
            np.multiply(sin0[:n], sin_start, out=right[:n])
            np.subtract(left[:n], right[:n], out=out[start : start + n, 1::2], casting="same_kind")

    def torch_blocks():
        freq_t, out_t = torch.from_numpy(freq), torch.from_numpy(out)
        for start in range(0, rows, block):
            angle = torch.arange(start, min(start + block, rows))[:, None] * freq_t
            out_t[start : start + block, 0::2] = torch.sin(angle)
            out_t[start : start + block, 1::2] = torch.cos(angle)

    return {"numpy_plain": numpy_plain, "numpy_blocks": numpy_blocks, "numpy_recurrence": numpy_recurrence,
            "torch_blocks": torch_blocks}[variant]


def rotation(variant, heads, tokens, width):
    half = width // 2
    x = np.random.default_rng(0).standard_normal((heads, tokens, width), dtype=np.float32)
    out = np.empty_like(x)
    angle = np.arange(tokens)[:, None] * frequencies(width)
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    turn = (cos + 1j * sin).astype(np.complex64)
    block = 512
    room = np.empty((block, half), np.float32)

    def numpy_half():
        for start in range(0, tokens, block):
            c, s = cos[start : start + block], sin[start : start + block]
            t = room[: c.shape[0]]
            for h in range(heads):
                a, b = x[h, start : start + block, :half], x[h, start : start + block, half:]
                to_a, to_b = out[h, start : start + block, :half], out[h, start : start + block, half:]
                np.multiply(a, c, out=to_a)
                np.multiply(b, s, out=t)
                np.subtract(to_a, t, out=to_a)
                np.multiply(b, c, out=to_b)
                np.multiply(a, s, out=t)
                np.add(to_b, t, out=to_b)

    def numpy_interleaved():
        np.multiply(x.view(np.complex64), turn, out=out.view(np.complex64))

    if torch:
        X, C, S = torch.from_numpy(x), torch.from_numpy(cos), torch.from_numpy(sin)
        CC, SS = torch.cat((C, C), 1), torch.cat((S, S), 1)
        O, T = torch.from_numpy(out), torch.from_numpy(turn)

    def torch_half():
        a, b = X[..., :half], X[..., half:]
        return torch.cat((a * C - b * S, b * C + a * S), -1)

    def torch_rotate_half():
        return X * CC + torch.cat((-X[..., half:], X[..., :half]), -1) * SS

    def torch_interleaved():
        turned = torch.view_as_complex(O.view(heads, tokens, half, 2))
        torch.mul(torch.view_as_complex(X.view(heads, tokens, half, 2)), T, out=turned)

    return {"numpy_half": numpy_half, "numpy_interleaved": numpy_interleaved, "torch_half": torch_half,
            "torch_rotate_half": torch_rotate_half, "torch_interleaved": torch_interleaved}[variant]


def attention(variant, tokens, heads, width):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, tokens, width), dtype=np.float32) for _ in range(3))
    slopes = [2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]
    scale, block = 1 / math.sqrt(width), 256
    place = np.arange(tokens, dtype=np.float32)

    def numpy_blocks():
        out = np.empty_like(q)
        for h in range(heads):
            for start in range(0, tokens, block):
                end = min(start + block, tokens)
                score = (q[h, start:end] * np.float32(scale)) @ k[h, :end].T
                score += np.float32(slopes[h]) * (place[None, :end] - place[start:end, None])
                score[:, start:end][np.triu(np.ones((end - start, end - start), bool), 1)] = -np.inf
                score -= score.max(1, keepdims=True)
                np.exp(score, out=score)
                out[h, start:end] = (score @ v[h, :end]) / score.sum(1, keepdims=True)

    if torch:
        Q, K, V, P = (torch.from_numpy(a) for a in (q, k, v, place))
        relative = P[None] - P[:, None]
        hidden = torch.full((tokens, tokens), float("-inf")).triu_(1)

    def torch_plain():
        bias = torch.tensor(slopes).view(heads, 1, 1) * relative + hidden
        return torch.softmax(Q @ K.transpose(1, 2) * scale + bias, -1) @ V

    def torch_blocks():
        out = torch.empty_like(Q)
        for start in range(0, tokens, block):
            end = min(start + block, tokens)
            for h in range(heads):
                bias = torch.add(hidden[start:end, :end], relative[start:end, :end], alpha=slopes[h])
                score = torch.addmm(bias, Q[h, start:end], K[h, :end].t(), alpha=scale)
                torch.mm(torch.softmax(score, -1), V[h, :end], out=out[h, start:end])
        return out

    return {"numpy_blocks": numpy_blocks, "torch_plain": torch_plain, "torch_blocks": torch_blocks}[variant]


def shuffle(variant, tokens, width):
    del variant
    rng = np.random.default_rng(0)
    x = rng.normal(size=(tokens, width)).astype(np.float32)
    weights = [(rng.normal(size=(width, width)) / np.sqrt(width)).astype(np.float32) for _ in range(3)]
    order = rng.permutation(tokens)

    def attend(x):
        q, k, v = (x @ w for w in weights)
        score = q @ k.T / np.float32(np.sqrt(width))
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        return (weight / weight.sum(axis=1, keepdims=True)) @ v

    return lambda: np.allclose(attend(x[order]), attend(x)[order], atol=1e-5)


def text(variant, rows, width):
    del variant
    angle = np.arange(rows)[:, None] * frequencies(width)
    values = np.empty((rows, width))
    values[:, 0::2], values[:, 1::2] = np.sin(angle), np.cos(angle)

    def savetxt():
        with open("/dev/null", "w") as out:
            np.savetxt(out, values, delimiter=",")

    return savetxt


WORKS = {"table": table, "rotation": rotation, "attention": attention, "shuffle": shuffle, "text": text}

run = WORKS[ARGS.work](ARGS.variant, *ARGS.shape)
if ARGS.work != "text":
    run()  # warm-up; a text of seconds needs none
times, started = [], time.perf_counter()
while not times or (time.perf_counter() - started < ARGS.seconds and len(times) < 200):
    begin = time.perf_counter()
    run()
    times.append(time.perf_counter() - begin)
version = f"torch {torch.__version__}" if torch else f"numpy {np.__version__}"
print(json.dumps({"seconds": times, "version": version}))
