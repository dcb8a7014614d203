#!/usr/bin/python3
"""Holds a new poslab to an old one: the same commands must give the same documents, files, messages and exit status.

    tests/compare_documents.py OLD NEW [--only PATTERN] [--list]

Prints a line per difference and exits 1 if there is one. `context` may differ; what else may is declared below, each with
its reason. Text is compared by its numbers, since its words may be put better. --only takes a regular expression on
the command; the commands that prepare files for others always run.
"""

import argparse
import csv
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent
FAMILIES = f"{ROOT}/golden/families"

# A line is a command; {a,b} makes one of each. `[n]` in front: the exit status of the old one, 0 if absent; `[?]`: any.
# Without --format it is json. `> a b` behind it: files that it writes, compared byte for byte.
PREPARE = """
train --task induction --encoding rope --d-model 16 --n-layers 1 --n-heads 2 --seq-len 32 --steps 30 --batch-size 4 --save roped > roped/config.json roped/model.safetensors
train --task passkey --encoding alibi --d-model 16 --n-layers 1 --n-heads 2 --seq-len 32 --steps 4 --batch-size 4 --save sloped > sloped/config.json sloped/model.safetensors
"""
SMALL = "--d-model 16 --n-layers 1 --n-heads 2 --seq-len 16 --steps 3 --batch-size 2"
COMMANDS = f"""
bound
bound --rope-theta 500000 --seq-len 8192 --format {{json,ndjson,csv,text}}
bound --rope-theta 10000 --seq-len 65536 --distances 1,2,3
bound --seq-len 4096 --search --islands
bound --model {{llama-2-7b,phi-3.5-mini,qwen3-8b-yarn}} --seq-len 16384
[1] bound --rope-theta 10 --seq-len 65536 --expect feasible
cache-test --encoding {{rope,none,learned,sinusoidal,alibi,t5}}
cache-test --encoding {{rope,alibi,learned,t5}} --policy {{keep,re-rotate,rebuild}} --previous-length 4 --full-pass whole-text
cache-test --encoding {{rope,sinusoidal}} --padding 3 --positions-from {{mask,row,mask-then-row,restart}}
cache-test --encoding rope --packed 2 --see-before
cache-test --encoding rope --n-heads 4 --n-kv-heads 2 --layout interleaved --format {{csv,text}}
cache-test --encoding rope --rope-type dynamic --original-max-position-embeddings 8 --policy {{keep,re-rotate,pin}} --prompt-len 4 --seq-len 16
cache-test --model phi-3.5-mini --prompt-len 4090 --seq-len 4100
[1] cache-test --model phi-3.5-mini --prompt-len 4090 --seq-len 4100 --expect consistent
embed
embed --token 0.3,0.7 --position-vector 0.1,-0.2 --format {{json,csv,text}}
embed --encoding {{sinusoidal,learned,none}} --seq-len 6 --d-model 8 --seed 3
embed --encoding {{sinusoidal,learned}} --words "the dog bit the man" --d-model 4 --format {{ndjson,csv}}
embed --encoding learned --seq-len 1500 --overflow truncate
embed --encoding sinusoidal --attention-mask 0,0,1,1,1 --d-model 8
embed --encoding learned --position-table table.npy --seq-len 4 --save-npy out.npy > out.npy
[2] embed --encoding learned --seq-len 1500
extend
extend --rope-type {{linear,ntk,ntk_by_parts,dynamic,yarn,llama3}} --factor 4 --original-max-position-embeddings 4096 --seq-len 16384
extend --rope-type longrope --head-dim 16 --short-factor 1,1,1,1,1,1,1,1 --long-factor 2,3,4,5,6,7,8,9 --original-max-position-embeddings 64 --max-position-embeddings 256 --seq-len {{32,256}}
extend --rope-type proportional --partial-rotary-factor 0.25 --head-dim 64 --seq-len 4096
extend --rope-type yarn --factor 8 --original-max-position-embeddings 4096 --yarn-ramp paper --no-truncate --beta-fast 16 --beta-slow 2
extend --rope-type yarn --factor 8 --original-max-position-embeddings 4096 --mscale 0.707 --mscale-all-dim 1
extend --rope-type yarn --factor 4 --original-max-position-embeddings 4096 --attention-factor 1.5 --format {{csv,text}}
extend --model llama-2-7b --seq-len 16384 --sweep rope_type=linear,ntk,yarn --format {{ndjson,csv}}
extend --model llama-2-7b --rope-type all --sweep seq_len=4096:32768:*2 --format ndjson
[2] extend --model llama-3.1-8b --seq-len 131072 --save-npy out.npy
[2] extend --rope-type yarm
[2] extend --rope-type longrope --factor 2
[2] extend --factor 0.5 --rope-type linear
extend --rope-type linear --beta-fast 3 --factor 2
extrapolate --encodings none,learned,sinusoidal,rope,alibi,t5,kerple,fire,xpos --task copy --seeds 0 {SMALL} --positions 64 --multiples 1,2
extrapolate --encodings rope,alibi --seeds 0,1 {SMALL} --positions 64 --multiples 1,2,4 --extend-types linear,ntk,yarn,dynamic --extend-steps 0,2 --format {{ndjson,csv,text}}
inspect
inspect {FAMILIES}/{{bloom,gemma3,gpt2,gpt_neox,gpt_neox_serial,mistral,mpt,qwen2,qwen2_sliding,qwen3}} --format {{json,csv}}
inspect {FAMILIES}/{{bloom,gemma3,gpt2,gpt_neox,mistral,mpt,qwen2,qwen3}}/model.gguf
inspect gemma-3-4b --format {{ndjson,text}}
[2] inspect no-such-preset
[2] inspect gemma-3-4bb
permute
permute --head-dim 16 --rotary-dim 8 --from {{half,interleaved}} --format {{json,csv}}
permute --model {FAMILIES}/{{qwen3,gpt_neox,mistral}} --save out.safetensors > out.safetensors
permute --model {FAMILIES}/{{qwen3,mistral,qwen2}} --detect --tokens tokens.npy
permute --model roped --detect
perplexity --model {{roped,sloped}} --seq-len 8,16,32 --positions 256
perplexity --model roped --seq-len 32,64 --positions 256 --buckets 4,16
perplexity --model {FAMILIES}/qwen3 --tokens tokens.npy --seq-len 8,16 --mode {{sliding,last}} --stride 4
perplexity --model roped --seq-len 64,128 --positions 256 --rope-type {{default,linear,ntk,ntk_by_parts,dynamic,yarn,llama3}} --factor 4
perplexity --model roped --seq-len 64 --positions 256 --rope-type all --factor 4 --format {{ndjson,csv}}
perplexity --model roped --seq-len 64 --positions 256 --attention-window 16 --format text
perplexity --model {FAMILIES}/{{bloom,gemma3,gpt2,gpt_neox,gpt_neox_serial,mistral,mpt,qwen2,qwen2_sliding,qwen3}} --tokens tokens.npy --seq-len 8,16
perplexity --model {FAMILIES}/{{bloom,gemma3,gpt2,gpt_neox,mistral,mpt,qwen2,qwen3}}/model.gguf --tokens tokens.npy --seq-len 8,16
[2] perplexity --model {FAMILIES}/qwen3 --tokens nowhere.npy
[2] perplexity --model llama-2-7b --tokens tokens.npy
plan --model llama-2-7b --seq-len 32768 --format {{json,ndjson,csv,text}}
plan --model {{llama-3.1-8b,phi-3.5-mini,qwen3-8b,gpt-neox-20b}} --seq-len 262144
plan --head-dim 64 --original-max-position-embeddings 2048 --seq-len 8192
precision
precision --profiles hf_f32,f64+bf16_table --positions 1000,100000 --format {{json,csv,text}}
precision --profiles ggml_f32,bf16_angle --layout interleaved --head-dim 64 --rope-theta 500000 --gap 7
probe
probe --query-input q_in.npy --query-output q_out.npy --positions positions.npy --layout half --format {{json,csv,text}}
probe --query-input q_in.npy --query-output q_out.npy --positions positions.npy --layout interleaved
probe --query-input q_in.npy --query-output q_out.npy --positions positions.npy --layout half --rope-theta 500000
probe --demo {{none,"pairing swapped","not rotated","negative angle","positions doubled","rotated twice","positions shifted"}} --dtype {{f32,bf16}}
[2] probe --demo layout
probe --model {{llama-3.1-8b,qwen3-8b-yarn,phi-3.5-mini,gemma-3-4b}}
recall --model {{roped,sloped}} --seq-len 32,64 --n-trials 8
recall --model roped --seq-len 64,128 --n-trials 8 --rope-type {{linear,yarn}} --factor 4 --format {{csv,text}}
rope-score --format {{json,ndjson,csv,text}}
rope-score --vectors ones --head-dim 128 --distances 0:64:+1
rope-score --query 1,2,3,4 --key 4,3,2,1 --layout {{half,interleaved}} --per-pair --format {{json,csv}}
rope-score --model {{llama-3.1-8b,qwen3-8b-yarn,gpt-neox-20b}} --distances 0:64:+8
rope-score --sweep rope_type=default,linear,ntk,yarn --factor 4 --original-max-position-embeddings 64 --head-dim 16 --format ndjson
[2] rope-score --rope-type all --factor 4 --original-max-position-embeddings 64 --head-dim 16 --format ndjson
tour --format ndjson
rotate
rotate --vector 1,2,3,4 --position 1 --layout {{half,interleaved}} --format {{json,csv,text}}
rotate --vector 1,2,3,4,5,6,7,8 --position 3 --rotary-dim 4
rotate --vector 1,2 --angle 1.5 --sweep angle=0:3:+1 --format {{ndjson,csv}}
rotate --vector 1,2,3,4 --position 100 --rope-type {{linear,yarn,dynamic}} --factor 2 --original-max-position-embeddings 16
[2] rotate --vector 1,2,3
[2] rotate --vector 1,nan
shuffle-test --encoding {{none,learned,sinusoidal,rope,alibi,t5}} --mask {{none,causal}} --dtype {{f64,f32}}
shuffle-test --words "the dog bit the man" --order 0,4,2,3,1 --encoding {{none,rope,alibi}} --format {{json,csv,text}}
shuffle-test --encoding rope --n-heads 4 --n-kv-heads 2 --d-model 32 --rotary-dim 4 --layout half --seq-len 9
shuffle-test --encoding {{none,rope}} --sweep seq_len=4:16:*2 --format {{ndjson,csv}}
[1] shuffle-test --expect order-aware
[2] shuffle-test --encoding kerpel
table
table --encoding {{sinusoidal,rope}} --seq-len 16 --d-model 8 --format {{json,ndjson,csv,text}}
table --variant {{paper,halves,tensor2tensor,channel-exponent,twice-channel-exponent}} --seq-len 12 --d-model 10 --dtype {{f64,f32,bf16,f16}}
table --encoding rope --seq-len 40 --head-dim 16 --rotary-dim 8 --layout {{interleaved,half}} --dtype {{f64,f32,bf16}} --save-npy out.npy > out.npy
table --encoding alibi --n-heads {{8,12}} --alibi-bias-max 16 --format {{json,csv,text}}
table --encoding t5 --bidirectional --num-buckets 16 --max-distance 64 --format {{json,csv}}
table --encoding t5 --no-bidirectional
table --encoding learned --position-table table.npy --seq-len 5
table --encoding learned --seq-len 4 --d-model 6 --seed 5
table --seq-len 64 --d-model 32 --similar-to 20 --top 5 --format {{json,text}}
table --seq-len 8 --d-model 4 --compare-with table.npy
table --seq-len 2000 --d-model 64 --save-npy out.npy > out.npy
[2] table --seq-len 3.0
[2] table --bogus 1
train --task {{copy,reverse,induction,passkey,modular-addition,parity}} --encoding rope {SMALL}
train --task copy --encoding {{none,learned,sinusoidal,rope,alibi,t5,kerple,fire,xpos}} --architecture {{llama,gpt2}} {SMALL} --save kept > kept/config.json kept/model.safetensors
train --text text.txt --encoding rope {SMALL} --rope-type {{linear,ntk,dynamic,yarn}} --factor 2 --original-max-position-embeddings 8 --format {{json,csv}}
train --text text.txt --text-unit bytes --encoding alibi --n-kv-heads 1 --attention-window 4 {SMALL} --format ndjson
train --tokens tokens.npy --encoding rope --d-ff 24 --tied-head {SMALL} --held-out 0.1
train --init roped --task induction --steps 2 --batch-size 2
train --task copy --encoding rope --sweep seed=0:2:+1 {SMALL} --format {{ndjson,csv}}
[2] train --task copy --encoding rope --d-model 10 --n-heads 3
rotate --config lesson.json
[2] rotate --config unknown_key.json
[2] nothing-of-this-name
[2] table --seq-len
"""

# Every preset, as the experiments that take one see it. Some have no RoPE, and are refused.
OF_EVERY_PRESET = ["inspect {}", "extend --model {} --seq-len 32768", "plan --model {} --seq-len 65536"]

# experiment -> {old name: new name} of parameters, "summary" or "rows" fields. The old word warns on stderr.
RENAMED = {"extrapolate": {"positions": "eval_tokens", "save": "save_study"},
           "permute": {"positions": "eval_tokens", "save": "save_weights"},
           "perplexity": {"positions": "eval_tokens"},
           "probe": {"positions": "positions_input"},
           "train": {"save": "save_model"}}

# experiment (or *) -> names that the new one may have beside the old ones in params, summary or rows.
AXES = {"multi_axis", "mrope_section", "mixed_angle", "segments", "position_rule", "frame_step", "visual_step",
        "spatial_merge_size"}
METHOD_PARAMS = {"variant", "base", "alibi_bias_max", "bidirectional", "num_buckets", "max_distance", "kerple_r1", "kerple_r2",
                 "fire_length", "xpos_gamma", "xpos_scale_base", "sandwich_dim"}
METHODS = {"params": METHOD_PARAMS, "summary": set(), "rows": {"pair"}}
ADDED = {**{name: METHODS for name in ("table", "embed", "shuffle-test", "cache-test", "train", "extrapolate")},
         "*": {"params": set(), "summary": set(), "rows": set()},
         "rotate": {"params": AXES | {"axis_positions", "token"},
                    "summary": {"resolved_axis_positions", "resolved_mrope_section"}, "rows": {"axis"}},
         "inspect": {"params": set(), "summary": {"multi_axis", "mrope_section"}, "rows": set()}}

# (pattern on the command, pattern on the place such as rows.3.score, relative tolerance, reason). Otherwise bit for bit.
ROUNDED = [("perplexity --model .*/mpt", "summary|rows", 0.1, "alibi_bias_max is applied, as by the model's authors")]


# (pattern on the command, reason): the message may be put in other words; that it is refused may not.
REWORDED = [(r"^probe --demo", "it knows more demos"),
            ("embed --encoding learned --seq-len 1500", "methods are named by their list"),
            ("--encoding kerpel", "the list of methods is longer")]

# (pattern on the command, place, reason): what a document, a file or an exit status has on purpose in another way.
CHANGED = [(r"^probe", r"^(?!status$)", "it judges place by place, and names what it measured: other fields, rows and sentences")]

# Experiments that the old one does not have.
NEW_EXPERIMENTS = {"golden"}

# Rates differ between any two runs.
RATE = re.compile(r"[\d.]+ tokens/s\b")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)")


def expand(line):
    """'a {b,c} {d,e}' -> four commands."""
    parts = re.split(r"\{([^{}]*)\}", line)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(one) for one in itertools.product(*choices)]


class Case:
    def __init__(self, line):
        self.line, _, files = line.partition(" > ")
        self.files = files.split()
        status = re.match(r"\[(\d)\] ", self.line)
        self.status = int(status[1]) if status else None if line.startswith("[?] ") else 0
        self.command = re.sub(r"^\[.\] ", "", self.line)
        self.words = shlex.split(self.command)
        self.experiment = self.words[0]
        self.form = self.words[self.words.index("--format") + 1] if "--format" in self.words else "json"
        if "--format" not in self.words:
            self.words += ["--format", "json"]


def cases():
    """What prepares files for others, then what is compared."""
    lines = [[one for line in text.strip().splitlines() for one in expand(line)] for text in (PREPARE, COMMANDS)]
    for preset in sorted(p.stem for p in (ROOT.parent / "configs" / "models").glob("*.json")):
        lines[1] += ["[?] " + line.format(preset) for line in OF_EVERY_PRESET]
    return [[Case(line) for line in part] for part in lines]


def save_npy(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    code = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}[kind]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}{code}", *values))


def write_inputs(folder):
    save_npy(folder / "tokens.npy", "<i4", (48,), [i * i % 23 for i in range(48)])
    save_npy(folder / "table.npy", "<f8", (8, 4), [((37 * i) % 64 - 32) / 16 for i in range(32)])
    save_npy(folder / "positions.npy", "<i8", (6,), [0, 1, 2, 5, 9, 30])
    inputs = [((53 * i) % 97 - 48) / 32 for i in range(6 * 8)]
    save_npy(folder / "q_in.npy", "<f4", (1, 6, 8), inputs)
    save_npy(folder / "q_out.npy", "<f4", (1, 6, 8), rotated(inputs, [0, 1, 2, 5, 9, 30], 8))
    (folder / "lesson.json").write_text(json.dumps({"experiment": "rotate", "params": {"vector": [2, 1], "angle": 0.5}}))
    (folder / "unknown_key.json").write_text(json.dumps({"vektor": [2, 1]}))
    (folder / "text.txt").write_text("It is a truth that a text must be long enough to be cut in two parts. " * 40)


def rotated(values, positions, head_dim):
    """RoPE in the layout half with base 10000."""
    import cmath
    half, out = head_dim // 2, list(values)
    for row, position in enumerate(positions):
        for i in range(half):
            at = row * head_dim + i
            z = complex(values[at], values[at + half]) * cmath.exp(1j * position * 10000 ** (-2 * i / head_dim))
            out[at], out[at + half] = z.real, z.imag
    return out


def run(binary, case, folder):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "POSLAB_ISA", "COLUMNS")}
    for name in case.files:
        if "/" in name:
            shutil.rmtree(folder / name.split("/")[0], ignore_errors=True)
        else:
            (folder / name).unlink(missing_ok=True)
    done = subprocess.run([binary, *case.words], cwd=folder, env=kept, stdin=subprocess.DEVNULL, capture_output=True)
    files = {name: (folder / name).read_bytes() if (folder / name).is_file() else None for name in case.files}
    return done.returncode, done.stdout.decode(), RATE.sub("# tokens/s", done.stderr.decode()), files


def documents(text, form):
    """A comparable value of what stands on stdout; numbers stay as they are written."""
    if form == "text":
        return NUMBER.findall(RATE.sub("", text))
    if form == "csv":
        return list(csv.DictReader(text.splitlines(keepends=True)))
    found = [json.loads(part, parse_float=str, parse_int=str)
             for part in ([text] if form == "json" and text.count("\n{") == 0 else text.splitlines()) if part]
    found = [{k: v for k, v in document.items() if k != "context"} for document in found]
    return found[0] if len(found) == 1 else found


def matching(table, case, place=None):
    return [entry for entry in table
            if re.search(entry[0], case.command) and (place is None or re.search(entry[1], place))]


def near(a, b, tolerance):
    try:
        a, b = float(a), float(b)
    except (TypeError, ValueError):
        return False
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def may_be_added(case, experiment, place):
    """The names that ADDED allows at a place such as params, 1.summary or rows.3; a column of CSV, or the unit of a
    field (`fields`), may be of any section."""
    sections = ("params", "summary", "rows")
    anywhere = case.form == "csv" or place.split(".")[-1] == "fields"
    here = sections if anywhere else [part for part in place.split(".") if part in sections]
    return {name for scope in ("*", experiment) for section in here for name in ADDED.get(scope, {}).get(section, ())}


def differences(case, a, b, place="", experiment=None):
    """(place, what differs) of two values; of a document of the tour by its own experiment."""
    if matching(CHANGED, case, place):
        return
    if isinstance(a, dict) and isinstance(b, dict):
        experiment = a.get("experiment", experiment or case.experiment)
        new_names = RENAMED.get(experiment, {})
        renamed = {new_names.get(name, name): value for name, value in a.items()}
        for name in sorted(set(b) - set(renamed) - may_be_added(case, experiment, place)):
            yield f"{place}.{name}".lstrip("."), "is new"
        for name, value in renamed.items():
            if name in b:
                yield from differences(case, value, b[name], f"{place}.{name}".lstrip("."), experiment)
            else:
                yield f"{place}.{name}".lstrip("."), "is gone"
        if [name for name in renamed if name in b] != [name for name in b if name in renamed]:
            yield place, "has its fields in another order"
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (left, right) in enumerate(zip(a, b)):
            yield from differences(case, left, right, f"{place}.{i}".lstrip("."), experiment)
    elif isinstance(a, list) and isinstance(b, list):
        yield place, f"has {len(b)} entries instead of {len(a)}"
    elif a != b and not any(near(a, b, tolerance) for _, _, tolerance, _ in matching(ROUNDED, case, place)):
        yield place, f"is {b!r} instead of {a!r}"


def without_rename_warnings(text, case):
    old_flags = ["--" + name.replace("_", "-") for name in RENAMED.get(case.experiment, {})]
    return "".join(line for line in text.splitlines(keepends=True) if not any(flag in line for flag in old_flags))


def compare(case, old, new):
    """Lines that say how two runs of a case differ."""
    (old_status, old_out, old_error, old_files), (new_status, new_out, new_error, new_files) = old, new
    if case.status is not None and old_status != case.status:
        yield f"the old one ends with {old_status} instead of {case.status}: {old_error.strip()}"
        return
    if new_status != old_status:
        if not matching(CHANGED, case, "status"):
            yield f"ends with {new_status} instead of {old_status}: {(new_error or old_error).strip()}"
        return
    if without_rename_warnings(new_error, case) != old_error and not matching(REWORDED, case):
        yield f"says {new_error.strip()!r} instead of {old_error.strip()!r}"
    try:
        found = list(differences(case, documents(old_out, case.form), documents(new_out, case.form)))
    except ValueError as error:
        yield f"stdout is no {case.form}: {error}"
        return
    yield from (f"{place} {what}" for place, what in found[:5])
    if len(found) > 5:
        yield f"and {len(found) - 5} more places"
    for name, content in old_files.items():
        if content is None:
            yield f"the old one wrote no {name}"
        elif new_files[name] != content and not matching(CHANGED, case, name):
            yield f"writes another {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a regular expression on the command")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options = parser.parse_args()
    prepare, compared = cases()
    chosen = prepare + [case for case in compared if re.search(options.only, case.command)]
    if options.list:
        print("\n".join(case.line for case in chosen))
        return 0
    differing = 0
    with tempfile.TemporaryDirectory(prefix="poslab compare ") as scratch:
        folders = [pathlib.Path(scratch, name) for name in ("old", "new")]
        for folder in folders:
            folder.mkdir()
            write_inputs(folder)
        for case in chosen:
            old, new = (run(binary.resolve(), case, folder) for binary, folder in zip((options.old, options.new), folders))
            lines = list(compare(case, old, new))
            differing += bool(lines)
            for line in lines:
                print(f"{case.command}: {line}", flush=True)
    print(f"{len(chosen)} commands, {differing} of them differ", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
