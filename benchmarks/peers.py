#!/usr/bin/python3
"""poslab beside what its users would otherwise run: numpy, PyTorch, ggml, dd, memcpy, a matrix product.

    benchmarks/peers.py [--build build] [--threads 2] [--rounds 3] [--seconds 1] [--only WORD ...]
                        [--ggml BUILD_OF_GGML --ggml-source GGML] [--json peers.json] [--markdown peers.md]

Contenders of one piece of work take turns, A B C A B C, so that a change of the machine's mood meets all of them. The
table gives minimum and median of all their runs and the ratio of minima to poslab's: above 1, poslab is faster.
Peers that are not installed are left out. --build needs cmake -DPOSLAB_BENCHMARKS=ON.

ggml: `pip download --no-binary :all: --no-deps llama-cpp-python` unpacks to vendor/llama.cpp/ggml (--ggml-source);
build it statically with cmake and name that build (--ggml).
"""

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Contender:
    """A name and a way to get the seconds of some runs."""

    def __init__(self, name, visit):
        self.name, self.visit, self.seconds, self.version = name, visit, [], ""


class Bench:
    def __init__(self, options):
        self.options = options
        self.build = pathlib.Path(options.build)
        self.environment = dict(os.environ, POSLAB_THREADS=str(options.threads))
        self.context = {}
        self.ggml = self.compile_ggml()

    def compile_ggml(self):
        if not self.options.ggml:
            return None
        build, source = pathlib.Path(self.options.ggml), pathlib.Path(self.options.ggml_source)
        target = pathlib.Path(tempfile.mkdtemp(prefix="poslab_peers_")) / "ggml_rope"
        archives = [str(next(build.rglob(f"lib{name}.a"))) for name in ("ggml", "ggml-cpu", "ggml-base")]
        subprocess.run(["g++", "-x", "c", "-std=c11", "-O2", f"-I{source / 'include'}", str(HERE / "peers/ggml_rope.c"),
                        "-x", "none", *archives, "-fopenmp", "-lpthread", "-ldl", "-lm", "-o", str(target)], check=True)
        return target

    def kernel(self, name, case):
        """A case of poslab_benchmarks: the fastest run of each repetition is one sample."""

        def visit():
            out = subprocess.run(
                [self.build / "poslab_benchmarks", f"--benchmark_filter=^{re.escape(case)}/",
                 f"--benchmark_min_time={self.options.seconds / 40}", "--benchmark_repetitions=20",
                 "--benchmark_format=json"],
                env=self.environment, check=True, capture_output=True, text=True).stdout
            document = json.loads(out)
            self.context = document["context"]
            return [b["min_s"] for b in document["benchmarks"] if b["run_type"] == "iteration"], ""

        return Contender(name, visit)

    def command(self, name, words, elapsed_of=None):
        """A whole command line, timed from outside or by the document it writes."""

        def visit():
            times, started = [], time.perf_counter()
            while not times or (time.perf_counter() - started < self.options.seconds and len(times) < 50):
                begin = time.perf_counter()
                done = subprocess.run(words, check=True, stdout=subprocess.PIPE if elapsed_of else subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
                times.append(elapsed_of(done.stdout) if elapsed_of else time.perf_counter() - begin)
            return times, ""

        return Contender(name, visit)

    def python(self, name, work, variant, *shape):
        """A variant of peers/python_peers.py, or None where its library is missing."""
        library = "torch" if variant.startswith("torch") else "numpy"
        if importlib.util.find_spec(library) is None:
            return None
        words = [sys.executable, HERE / "peers/python_peers.py", work, variant, "--threads", str(self.options.threads),
                 "--seconds", str(self.options.seconds), "--shape", *map(str, shape)]

        def visit():
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            return found["seconds"], found["version"]

        return Contender(name, visit)

    def ggml_rope(self, name, layout, *shape):
        if not self.ggml:
            return None
        words = [self.ggml, layout, *map(str, shape), str(self.options.threads), str(self.options.seconds)]

        def visit():
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            return found["seconds"], found["version"]

        return Contender(name, visit)

    def poslab(self, *words):
        return [str(self.build / "poslab"), *words, "--quiet", "--threads", str(self.options.threads)]


def works(bench, scratch):
    """(title, contenders), poslab's own first."""

    def elapsed(document):
        return json.loads(document)["context"]["elapsed_s"]

    yield "sinusoidal table, 131072 x 1024, f32", [
        bench.kernel("poslab", "table/f32/131072x1024"),
        bench.kernel("constant by ordinary stores", "fill/f32/131072x1024"),
        bench.python("numpy, recurrence in blocks", "table", "numpy_recurrence", 131072, 1024),
        bench.python("numpy, f64 in blocks", "table", "numpy_blocks", 131072, 1024),
        bench.python("numpy, plain", "table", "numpy_plain", 131072, 1024),
        bench.python("PyTorch, f64 in blocks", "table", "torch_blocks", 131072, 1024)]
    for layout in ("half", "interleaved"):
        yield f"rotation, {layout}, 32 x 8192 x 128, f32, out of place", [
            bench.kernel("poslab", f"rotate/f32/{layout}/out_of_place/32x8192x128"),
            bench.kernel("memcpy", "memcpy/f32/32x8192x128"),
            bench.ggml_rope("ggml, angles on the fly", layout, 32, 8192, 128),
            bench.python("numpy, in blocks" if layout == "half" else "numpy, complex", "rotation", f"numpy_{layout}",
                         32, 8192, 128),
            bench.python("PyTorch, halves" if layout == "half" else "PyTorch, complex", "rotation", f"torch_{layout}",
                         32, 8192, 128),
            bench.python("PyTorch, rotate_half", "rotation", "torch_rotate_half", 32, 8192, 128)
            if layout == "half" else None]
        yield f"rotation, {layout}, 32 x 8192 x 128, f32, in place", [
            bench.kernel("poslab", f"rotate/f32/{layout}/in_place/32x8192x128"),
            bench.kernel("memcpy", "memcpy/f32/32x8192x128")]
        yield f"rotation, {layout}, 32 x 512 x 128, f32, in cache", [
            bench.kernel("poslab", f"rotate/f32/{layout}/out_of_place/32x512x128"),
            bench.kernel("poslab, in place", f"rotate/f32/{layout}/in_place/32x512x128"),
            bench.kernel("memcpy", "memcpy/f32/32x512x128"),
            bench.ggml_rope("ggml, angles on the fly", layout, 32, 512, 128)]
        yield f"rotation, {layout}, 32 x 8192 x 128, bf16, out of place", [
            bench.kernel("poslab", f"rotate/bf16/{layout}/out_of_place/32x8192x128"),
            bench.kernel("poslab, f32, twice the bytes", f"rotate/f32/{layout}/out_of_place/32x8192x128"),
            bench.kernel("memcpy, bf16", "memcpy/bf16/32x8192x128")]
    yield "causal ALiBi attention, 4096 x 8 x 64, f32", [
        bench.kernel("poslab", "attention/f32/causal_alibi/4096x8x64"),
        bench.kernel("matrix product 1024^3 (2.1 GFLOP; attention 17.2)", "sgemm/1024x1024x1024"),
        bench.python("PyTorch, in blocks", "attention", "torch_blocks", 4096, 8, 64),
        bench.python("PyTorch, plain", "attention", "torch_plain", 4096, 8, 64),
        bench.python("numpy, in blocks", "attention", "numpy_blocks", 4096, 8, 64)]
    yield "shuffle-test, 2048 x 512, f32", [
        bench.command("poslab", bench.poslab("shuffle-test", "--seq-len", "2048", "--d-model", "512", "--dtype", "f32",
                                             "--format", "json"), elapsed),
        bench.python("numpy", "shuffle", "numpy", 2048, 512)]
    npy = str(scratch / "table.npy")
    yield "table 1000000 x 128, f32, as .npy", [
        bench.command("poslab", bench.poslab("table", "--seq-len", "1000000", "--d-model", "128", "--dtype", "f32",
                                             "--save-npy", npy)),
        bench.command("dd of as many bytes", ["dd", "if=/dev/zero", f"of={npy}", "bs=4M", "count=122"])]
    yield "table 100000 x 64 as CSV", [
        bench.command("poslab", bench.poslab("table", "--seq-len", "100000", "--d-model", "64", "--format", "csv",
                                             "--output", "/dev/null")),
        bench.python("numpy.savetxt", "text", "numpy", 100000, 64)]
    yield "start-up", [bench.command("poslab rotate", bench.poslab("rotate", "--format", "json")),
                       bench.command("true", ["/bin/true"])]


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8") if pathlib.Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"model name\s*:\s*(.*)", text)
    return found.group(1) if found else platform.processor()


def number(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def markdown(results, machine):
    lines = [f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, {machine['isa']}, "
             f"{machine['blas']}, load {machine['load_before']} before and {machine['load_after']} after.", "",
             "| work | contender | minimum | median | runs | minimum / poslab's |", "| --- | --- | --- | --- | --- | --- |"]
    for work in results:
        for c in work["contenders"]:
            name = f"{c['name']} ({c['version']})" if c["version"] else c["name"]
            lines.append(f"| {work['work']} | {name} | {number(c['min_s'])} | {number(c['median_s'])} | {c['runs']} | "
                         f"{c['ratio']:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each visit to each contender")
    parser.add_argument("--only", nargs="+", default=[], help="words that a work's title must hold")
    parser.add_argument("--ggml")
    parser.add_argument("--ggml-source")
    parser.add_argument("--json", default="peers.json")
    parser.add_argument("--markdown", default="peers.md")
    options = parser.parse_args()
    if options.ggml and not options.ggml_source:
        parser.error("--ggml needs --ggml-source, where its include folder is")

    bench = Bench(options)
    load_before, results = round(os.getloadavg()[0], 2), []
    with tempfile.TemporaryDirectory() as scratch:
        for title, contenders in works(bench, pathlib.Path(scratch)):
            if not all(word in title for word in options.only):
                continue
            present = [c for c in contenders if c]
            for _ in range(options.rounds):
                for contender in present:
                    seconds, contender.version = contender.visit()
                    contender.seconds += seconds
            own = min(present[0].seconds)
            results.append({"work": title, "contenders": [
                {"name": c.name, "version": c.version, "min_s": min(c.seconds),
                 "median_s": statistics.median(c.seconds), "runs": len(c.seconds), "ratio": min(c.seconds) / own}
                for c in present]})
            print(title, *(f"  {c['name']}: {number(c['min_s'])}, {c['ratio']:.2f}"
                           for c in results[-1]["contenders"]), sep="\n", file=sys.stderr)

    machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "threads": options.threads, "system": platform.platform(),
               "isa": bench.context.get("poslab_isa", ""), "blas": bench.context.get("poslab_blas", ""),
               "load_before": load_before, "load_after": round(os.getloadavg()[0], 2),
               "environment": {name: os.environ[name] for name in ("OPENBLAS_CORETYPE", "POSLAB_ISA")
                               if name in os.environ}}
    pathlib.Path(options.json).write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n",
                                          encoding="utf-8")
    pathlib.Path(options.markdown).write_text(markdown(results, machine), encoding="utf-8")


if __name__ == "__main__":
    main()
