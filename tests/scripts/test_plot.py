#!/usr/bin/python3
"""scripts/plot.py on documents written by hand: what stands on the axes, the files, the errors."""

import contextlib
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True

import plot  # noqa: E402


def document(experiment, rows=(), params=None, summary=None, fields=None):
    made = {"schema": 1, "experiment": experiment, "params": params or {}, "summary": summary or {},
            "rows": list(rows), "context": {"threads": 1}}
    return made | ({"fields": fields} if fields else {})


def table(seq_len=6, d_model=4):
    rows = [{"position": p, "values": [f(p / 10000 ** (2 * i / d_model)) for i in range(d_model // 2)
                                       for f in (math.sin, math.cos)]} for p in range(seq_len)]
    return document("table", rows, {"encoding": "sinusoidal", "seq_len": seq_len, "d_model": d_model})


def rope_score(layout="interleaved", **row_extra):
    rows = [{"query_position": m, "key_position": 0, "distance": m, "score": math.cos(m)} | row_extra for m in range(9)]
    return document("rope-score", rows, {"layout": layout, "head_dim": 16},
                    fields={"distance": "tokens", "query_position": "tokens"})


def extend(rope_type, factor):
    rows = []
    for i in range(8):
        w = 10000 ** (-i / 8)
        rows.append({"pair": i, "wavelength": 2 * math.pi / w, "turns_in_training": 2048 * w / (2 * math.pi),
                     "inv_freq": w, "scaled_inv_freq": w / factor, "multiplier": 1 / factor, "region": "stretched"})
    return document("extend", rows, {"rope_type": rope_type, "max_position_embeddings": 2048},
                    {"resolved_rope_type": rope_type}, {"wavelength": "tokens", "turns_in_training": "turns"})


def point(summary, **params):
    return document("bound", [], params, summary)


def figure_of(*documents, **options):
    argv = ["-o", "x.png"] + [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
    text = "\n".join(json.dumps(d) for d in documents)
    return plot.draw(plot.parse_documents(text, "test"), plot.parse_arguments(argv))


def legend_words(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()] if axes.get_legend() else []


class Axes(unittest.TestCase):
    def tearDown(self):
        plot.plt.close("all")

    def test_table_is_a_heat_map_with_positions_across_and_dimensions_down(self):
        axes = figure_of(table(seq_len=6, d_model=4)).axes[0]
        image, = axes.images
        self.assertEqual(image.get_array().shape, (4, 6))
        self.assertEqual(image.get_array()[1, 0], 1)  # dimension 1 at position 0 is cos 0
        self.assertEqual(image.get_cmap().name, "coolwarm")
        self.assertEqual(tuple(image.get_extent()), (-0.5, 5.5, 3.5, -0.5))
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("position", "dimension"))
        self.assertEqual(axes.get_title(), "table: encoding sinusoidal, d model 4")

    def test_score_against_distance_takes_units_from_the_document(self):
        axes = figure_of(rope_score()).axes[0]
        self.assertEqual(axes.get_xlabel(), "distance (tokens)")
        self.assertEqual(axes.get_ylabel(), "score")
        line, = axes.lines
        self.assertEqual(list(line.get_xdata()), list(range(9)))
        self.assertEqual(list(line.get_ydata()), [math.cos(m) for m in range(9)])

    def test_decay_bound_stands_beside_the_score(self):
        axes = figure_of(rope_score(decay_bound=2.5)).axes[0]
        axes, right = axes.figure.axes
        self.assertEqual((len(axes.lines), len(right.lines)), (1, 1))
        self.assertEqual(set(right.lines[0].get_ydata()), {2.5})
        self.assertEqual(right.get_ylabel(), "decay bound (dashed)")

    def test_documents_of_one_experiment_are_overlaid_and_named_by_what_differs(self):
        axes = figure_of(rope_score("interleaved"), rope_score("half")).axes[0]
        self.assertEqual(legend_words(axes), ["layout interleaved", "layout half"])

    def test_one_length_is_drawn_by_position_and_what_the_sweep_leaves_alone_once(self):
        def run(rope_type, loss):
            rows = [{"length": 8, "position_first": p, "position_last": p + 3, "mean_nll": l, "control": c}
                    for c, l in ((False, loss), (True, 1)) for p in (0, 4)]
            return document("perplexity", rows, {"rope_type": rope_type}, {"trained_length": 4})
        axes = figure_of(run("linear", 3), run("yarn", 2)).axes[0]
        self.assertEqual(axes.get_xlabel(), "position last")
        self.assertEqual(legend_words(axes), ["rope type linear", "control yes", "rope type yarn", "trained length 4"])
        self.assertEqual(list(axes.lines[0].get_xdata()), [3, 7])

    def test_perplexity_of_one_length_goes_by_position_and_of_several_by_length(self):
        def rows(*lengths):
            return [{"length": n, "position_first": f, "position_last": l, "mean_nll": nll, "stderr": 0.1,
                     "perplexity": math.exp(nll), "tokens": tokens, "control": control}
                    for n in lengths for control in (False, True)
                    for f, l, nll, tokens in ((0, 63, 3.0, 64), (64, n - 1, 1.0, n - 64))]
        axes = figure_of(document("perplexity", rows(256))).axes[0]
        self.assertEqual(axes.get_xlabel(), "position last")
        curves = [line for line in axes.lines if line.get_linestyle() != "None"]  # not the caps of error bars
        self.assertEqual([list(line.get_xdata()) for line in curves], [[63, 255]] * 2)
        self.assertEqual(list(curves[0].get_ydata()), [3.0, 1.0])
        axes = figure_of(document("perplexity", rows(128, 256))).axes[0]
        self.assertEqual(axes.get_xlabel(), "length")
        self.assertEqual([list(line.get_xdata()) for line in axes.lines], [[128, 256]] * 2)
        self.assertEqual(list(axes.lines[0].get_ydata()), [2.0, 1.5])  # buckets weigh by their tokens

    def test_null_leaves_a_gap(self):
        rows = [{"distance": d, "score": None if d == 1 else 1.0} for d in range(3)]
        line, = figure_of(document("rope-score", rows)).axes[0].lines
        self.assertTrue(math.isnan(line.get_ydata()[1]))
        self.assertEqual(len(line.get_xdata()), 3)

    def test_rows_of_an_unknown_experiment_are_drawn_against_their_first_number(self):
        axes = figure_of(document("new", [{"head": h, "slope": 2.0 ** -h} for h in range(4)])).axes[0]
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("head", "slope"))

    def test_rows_told_apart_by_words_are_bars(self):
        rows = [{"method": m, "logit_multiplier": v} for m, v in (("pi", 1.0), ("yarn", 1.3))]
        axes = figure_of(document("plan", rows)).axes[0]
        self.assertEqual([b.get_width() for b in axes.patches], [1.0, 1.3])
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()], ["pi", "yarn"])

    def test_the_title_names_what_was_resolved(self):
        made = rope_score() | {"summary": {"resolved_rope_type": "yarn"}}
        made["params"]["rope_type"] = None
        self.assertEqual(figure_of(made).axes[0].get_title(),
                         "rope-score: layout interleaved, rope type yarn, head dim 16")

    def test_sweep_is_drawn_over_its_parameter_with_the_others_as_lines(self):
        documents = [point({"smallest_base": 10.0 * n * h}, head_dim=h, seq_len=n)
                     for h in (64, 128) for n in (1024, 2048, 4096, 1048576)]
        axes = figure_of(*documents).axes[0]
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("seq len", "smallest base"))
        self.assertEqual(axes.get_xscale(), "log")
        self.assertEqual(legend_words(axes), ["head dim 64", "head dim 128"])
        self.assertEqual(list(axes.lines[1].get_ydata()), [1280.0 * n for n in (1024, 2048, 4096, 1048576)])

    def test_y_picks_a_number_of_the_summary_and_x_the_parameter(self):
        documents = [point({"a": 1.0 * n, "b": -1.0 * n}, n=n, m=m) for m in (1, 2) for n in (1, 2, 3)]
        axes = figure_of(*documents, y="b", x="m").axes[0]
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("m", "b"))
        self.assertEqual(legend_words(axes), ["n 1", "n 2", "n 3"])

    def test_swept_words_become_ticks(self):
        axes = figure_of(*[point({"a": float(i)}, encoding=e) for i, e in enumerate(["none", "rope", "alibi"])]).axes[0]
        self.assertEqual([t.get_text() for t in axes.get_xticklabels()], ["none", "rope", "alibi"])

    def test_extend_shows_four_panels_for_all_methods(self):
        fig = figure_of(extend("linear", 4), extend("ntk", 2))
        self.assertEqual([a.get_ylabel() for a in fig.axes],
                         ["wavelength (tokens)", "multiplier", "turns in training",
                          "score of equal vectors (1 at distance 0)"])
        self.assertEqual(legend_words(fig.axes[0]), ["before", "linear", "ntk"])
        before, linear, _ = fig.axes[3].lines
        self.assertEqual(before.get_ydata()[0], 1)
        # Position interpolation by 4: the score at distance 4 is the plain score at distance 1.
        plain = dict(zip(before.get_xdata(), before.get_ydata()))
        self.assertAlmostEqual(dict(zip(linear.get_xdata(), linear.get_ydata()))[4], plain[1], places=14)

    def test_loss_against_length_marks_the_trained_length_and_averages_seeds(self):
        rows = [{"encoding": e, "seed": s, "length": n, "mean_nll": s + n / 1000, "low": n / 1000, "high": 2 + n / 1000}
                for e in ("rope", "alibi") for s in (0, 2) for n in (128, 256, 512)]
        axes = figure_of(document("extrapolate", rows, {"train_length": 128})).axes[0]
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("length", "mean nll"))
        self.assertEqual(legend_words(axes), ["rope", "alibi", "trained length 128"])
        for drawn, mean in zip(axes.lines[0].get_ydata(), (1.128, 1.256, 1.512)):
            self.assertAlmostEqual(drawn, mean, places=12)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *argv, text="", **kwargs):
        return subprocess.run([str(SCRIPTS / "plot.py"), *map(str, argv)], input=text.encode(), capture_output=True,
                              **kwargs)

    def test_endings_pick_the_format(self):
        for ending, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
            path = self.folder / f"a b{ending}"
            done = self.run_script("-o", path, text=json.dumps(table(), indent=2))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""), ending)
            self.assertTrue(path.read_bytes().startswith(magic), ending)
            self.assertGreater(path.stat().st_size, 3000, ending)

    def test_a_stream_from_a_file_and_the_same_picture_twice(self):
        stream = self.folder / "sweep.ndjson"
        stream.write_text("".join(json.dumps(point({"a": n}, n=n)) + "\n" for n in (1, 2, 3)))
        pictures = [self.folder / name for name in ("one.svg", "two.svg")]
        for path in pictures:
            self.assertEqual(self.run_script(stream, "-o", path).returncode, 0)
        self.assertEqual(pictures[0].read_bytes(), pictures[1].read_bytes())

    def test_bad_input_is_one_line_and_exit_2(self):
        out = self.folder / "x.png"
        good = json.dumps(table())
        cases = [
            ("", ["-o", out], "standard input holds no document"),
            ("position,values_0\n0,1\n", ["-o", out], "line 1: not JSON"),
            (good + "\n{\"schema\": 1,", ["-o", out], "line 2: not JSON"),
            ("{}", ["-o", out], "not a poslab document"),
            ("[1]", ["-o", out], "not a poslab document"),
            (json.dumps(table() | {"schema": 2}), ["-o", out], "schema 2 is unknown"),
            (json.dumps(table() | {"rows": 3}), ["-o", out], "'rows' must be a list"),
            (json.dumps(table() | {"rows": [1]}), ["-o", out], "every row must be an object"),
            (good + json.dumps(rope_score()), ["-o", out], "several experiments (rope-score, table)"),
            (json.dumps(document("bound")), ["-o", out], "without rows"),
            (json.dumps(document("inspect", [{"name": "layout", "value": "half"}])), ["-o", out], "no two numbers"),
            (json.dumps(rope_score()), ["-o", out, "--x", "scor"], "'scor' to draw; there are: query_position"),
            (json.dumps(rope_score()), ["-o", out, "--y", "scor"], "'scor'; there are: query_position"),
            (json.dumps(point({"a": 1}, n=1)) * 2, ["-o", out], "nothing was swept"),
            (good, ["-o", self.folder / "x.bmp"], "must end in .png, .svg, .pdf"),
            (good, ["-o", self.folder / "no" / "x.png"], "No such file or directory"),
            (good, [self.folder / "absent.json", "-o", out], "cannot read"),
            (good, [], "--output"),
            (good, ["-o", out, "--bogus"], "--bogus"),
        ]
        for text, argv, said in cases:
            with self.subTest(said):
                stderr = io.StringIO()
                stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
                with unittest.mock.patch("sys.stdin", stdin), contextlib.redirect_stderr(stderr):
                    self.assertEqual(plot.main([str(a) for a in argv]), 2)
                self.assertRegex(stderr.getvalue(), r"\Aplot\.py: [^\n]+\n\Z")
                self.assertIn(said, stderr.getvalue())
                self.assertFalse(out.exists())
        done = self.run_script("-o", out)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertEqual(done.stderr, b"plot.py: standard input holds no document\n")

    def test_closed_pipe_is_quiet(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([str(SCRIPTS / "plot.py"), "--help"], stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        self.assertEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
