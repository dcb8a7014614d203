#!/usr/bin/python3
"""Sweeps: points and their order, jobs, shards, failing points, CSV, and resuming what was killed."""

import csv
import json
import signal
import subprocess
import time

import poslab_process
from poslab_process import ProcessTest, environment, strip_context


def swept(points, *names):
    return [tuple(p["params"][n] for n in names) if len(names) > 1 else p["params"][names[0]] for p in points]


class Points(ProcessTest):
    def test_syntax(self):
        cases = [
            ("seed=3,1,2", [3, 1, 2]),
            ("seed=010", [10]),
            ("seed=1:4:+1", [1, 2, 3, 4]),
            ("seed=4:1:+-1", [4, 3, 2, 1]),
            ("seed=0:10:+5", [0, 5, 10]),
            ("seed=1:8:*2", [1, 2, 4, 8]),
            ("seed=5:5:+1", [5]),
            ("rope_theta=0.5:1:+0.25", [0.5, 0.75, 1]),
            ("rope_theta=1:1e4:*10", [1, 10, 100, 1000, 10000]),
            ("layout=half,interleaved", ["half", "interleaved"]),
            ("layout=all", ["interleaved", "half"]),
            ("placements=5:2,7:2;8:1", [["5:2", "7:2"], ["8:1"]]),
            ("query=1,2;3,4", [[1, 2], [3, 4]]),
            ("per_pair=true,false", [True, False]),
        ]
        for text, values in cases:
            with self.subTest(text):
                found = swept(self.points("rope-score", "--sweep", text), text.split("=")[0])
                self.assertEqual(sorted(map(str, found)) if "all" in text else found,
                                 sorted(map(str, values)) if "all" in text else values)

    def test_points_are_computed_and_never_accumulated(self):
        found = swept(self.points("rope-score", "--sweep", "rope_theta=1:2:+0.1"), "rope_theta")
        self.assertEqual(found, [1 + i * 0.1 for i in range(11)])
        found = swept(self.points("rope-score", "--sweep", "rope_theta=1:2:*1.1"), "rope_theta")
        self.assertEqual(found, [1.1 ** i for i in range(8)])

    def test_the_first_axis_varies_slowest(self):
        found = self.points("rope-score", "--sweep", "seed=1,2", "--sweep", "rope_theta=10,20,30")
        self.assertEqual(swept(found, "seed", "rope_theta"), [(s, t) for s in (1, 2) for t in (10, 20, 30)])

    def test_a_point_is_what_a_single_run_gives(self):
        lines = self.poslab("rope-score", "--sweep", "seed=1,2", "--head-dim", "8").splitlines()
        for seed, line in zip((1, 2), lines):
            single = self.poslab("rope-score", "--seed", seed, "--head-dim", "8", "--format", "ndjson")
            self.assertEqual(strip_context(line), strip_context(single.rstrip("\n")))

    def test_json_means_ndjson(self):
        self.assertEqual(len(self.poslab("rope-score", "--sweep", "seed=1,2", "--format", "json").splitlines()), 2)

    def test_what_is_refused(self):
        cases = [
            "seed", "seed=", "=1,2", "sed=1,2", "format=json,csv", "seed=all",
            "seed=1,1", "seed=01,1", "rope_theta=2,2.0", "layout=half,half", "placements=5:2;5:2",
            "seed=1.5,2", "seed=a,b", "seed=1,,2", "seed=1,", "layout=hlf", "rope_theta=1:nan:+1",
            "rope_theta=1:inf:*2",
            "seed=1:2:+0.5", "seed=1:4:*1.5", "seed=1:4:2", "seed=1:4", "seed=1:4:+0", "seed=1:4:*1", "seed=1:4:*0",
            "seed=4:1:+1", "seed=1:4:+-1", "seed=1:4:*0.5", "seed=0:1000000:+1", "seed=0:9223372036854775807:+1",
        ]
        for text in cases:
            with self.subTest(text):
                self.refused("rope-score", "--sweep", text, said="--sweep")
        self.refused("rope-score", "--sweep", "seed=1,2", "--sweep", "seed=3,4", said="seed")
        self.refused("rope-score", "--sweep", "seed=1:1001:+1", "--sweep", "head_dim=2:2000:+2", said="1000000")
        self.refused("rope-score", "--sweep", "rope_thta=1,2", said="'rope_theta'")

    def test_a_million_points_are_decoded_lazily(self):
        words = ["rope-score", "--head-dim", "2", "--sweep", "seed=1:1000000:+1"]
        process = subprocess.Popen([poslab_process.binary, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment())
        self.assertEqual(json.loads(process.stdout.readline())["params"]["seed"], 1)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        self.assertIn(process.wait(), (0, -signal.SIGPIPE))


class Running(ProcessTest):
    SWEEP = ["rope-score", "--head-dim", "64", "--sweep", "seed=1:7:+1", "--sweep", "layout=half,interleaved"]

    def test_jobs_and_threads_change_nothing(self):
        expected = strip_context(self.poslab(*self.SWEEP))
        self.assertEqual(len(expected.splitlines()), 14)
        for words in (["--jobs", "2"], ["--jobs", "5"], ["--jobs", "2", "--threads", "1"], ["--jobs", "1000"]):
            self.assertEqual(strip_context(self.poslab(*self.SWEEP, *words)), expected, words)
        for words in (["--jobs", "0"], ["--jobs", "-1"], ["--jobs", "x"], ["--threads", "0"]):
            self.refused(*self.SWEEP, *words, said=words[0])

    def test_shards_share_out_the_points(self):
        lines = strip_context(self.poslab(*self.SWEEP)).splitlines()
        for i in (1, 2, 3):
            share = strip_context(self.poslab(*self.SWEEP, "--shard", f"{i}/3")).splitlines()
            self.assertEqual(share, lines[i - 1::3])
        self.assertEqual(strip_context(self.poslab(*self.SWEEP, "--shard", "1/1")).splitlines(), lines)

    def test_an_empty_share_writes_nothing(self):
        words = ["rope-score", "--sweep", "seed=1,2", "--shard", "3/3"]
        self.assertEqual(self.poslab(*words), "")
        self.assertEqual(self.poslab(*words, "--output", "x.ndjson"), "")
        self.assertEqual(self.names(), [])

    def test_shards_that_are_refused(self):
        for text in ("0/3", "4/3", "1/0", "-1/3", "1", "1/", "/3", "a/b", "1/3/3", "1.5/3", "+1/3"):
            self.refused("rope-score", "--sweep", "seed=1,2", "--shard", text, said="--shard")
        self.refused("rope-score", "--shard", "1/2", said="--shard")

    def test_a_failing_point_keeps_the_earlier_ones_and_is_named(self):
        words = ["rope-score", "--head-dim", "8", "--sweep", "rotary_dim=2,4,7,8"]
        for jobs in ("1", "3"):
            done = self.run_poslab(*words, "--jobs", jobs)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr.decode(), r"\Aposlab: [^\n]*rotary_dim=7[^\n]*\n\Z")
            self.assertEqual(swept(map(json.loads, done.stdout.decode().splitlines()), "rotary_dim"), [2, 4])
        self.refused(*words, "--output", "x.ndjson", said="rotary_dim=7")
        self.assertEqual(self.names(), ["x.ndjson.partial"])
        kept = (self.folder / "x.ndjson.partial").read_text().splitlines()
        self.assertEqual(swept(map(json.loads, kept), "rotary_dim"), [2, 4])
        done = self.run_poslab(*words, "--format", "csv")
        self.assertEqual(done.returncode, 2)
        self.assertEqual({row["rotary_dim"] for row in csv.DictReader(done.stdout.decode().splitlines())}, {"2", "4"})

    def test_expect_fails_if_any_point_does(self):
        words = ["shuffle-test", "--sweep", "mask=none,causal", "--expect"]
        text = self.poslab(*words, "equivariant", status=1)
        self.assertEqual([json.loads(line)["summary"]["equivariant"] for line in text.splitlines()], [True, False])
        self.poslab("shuffle-test", "--sweep", "seed=1,2", "--expect", "equivariant")

    def test_text_is_one_table_of_summaries(self):
        text = self.poslab("shuffle-test", "--sweep", "mask=none,causal", "--format", "text")
        for part in ("mask", "none", "causal", "max_abs_diff"):
            self.assertIn(part, text)


class Csv(ProcessTest):
    def rows(self, *words):
        return list(csv.reader(self.poslab(*words, "--format", "csv").splitlines()))

    def test_one_header_swept_parameters_first(self):
        rows = self.rows("rope-score", "--sweep", "layout=half,interleaved", "--sweep", "seed=1,2")
        self.assertEqual(rows[0], ["layout", "seed", "query_position", "key_position", "distance", "score"])
        self.assertEqual(len(rows), 1 + 4 * 4)
        self.assertEqual([r[:2] for r in rows[1::4]],
                         [["half", "1"], ["half", "2"], ["interleaved", "1"], ["interleaved", "2"]])

    def test_all_params_are_repeated(self):
        params = self.document("rope-score")["params"]
        rows = self.rows("rope-score", "--csv-params", "all", "--rope-theta", "1e4")
        self.assertEqual(rows[0][:len(params)], list(params))
        self.assertEqual(rows[0][len(params):], ["query_position", "key_position", "distance", "score"])
        cells = dict(zip(rows[0], rows[1]))
        self.assertEqual(cells["placements"], "5:2,105:102,1005:1002,7:2")
        self.assertEqual((cells["seed"], cells["rope_theta"], cells["head_dim"], cells["per_pair"]),
                         ("1", "10000", "", "false"))
        swept_too = self.rows("rope-score", "--csv-params", "all", "--sweep", "seed=4,5")
        self.assertEqual(swept_too[0][0], "seed")
        self.assertEqual(sorted(swept_too[0]), sorted(rows[0]))

    def test_a_swept_list_is_one_quoted_cell(self):
        text = self.poslab("rope-score", "--sweep", "placements=5:2,7:2;8:1", "--format", "csv")
        self.assertIn('\n"5:2,7:2",5,2,3,', text)

    def test_rows_that_do_not_fit_the_header_name_ndjson(self):
        done = self.run_poslab("table", "--sweep", "d_model=4,8", "--format", "csv")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), r"\Aposlab: [^\n]*ndjson[^\n]*\n\Z")
        self.assertTrue(done.stdout.startswith(b"d_model,position,values_0,values_1,values_2,values_3\n4,0,"))


class Resume(ProcessTest):
    WORDS = ["rope-score", "--head-dim", "8", "--sweep", "seed=1:6:+1", "--output", "x.ndjson", "--resume"]

    def whole(self):
        """The finished sweep's lines, and no file."""
        self.poslab(*self.WORDS)
        lines = (self.folder / "x.ndjson").read_text().splitlines(keepends=True)
        (self.folder / "x.ndjson").unlink()
        self.assertEqual(len(lines), 6)
        return lines

    def resumed(self, *words):
        self.poslab(*(words or self.WORDS))
        self.assertEqual(self.names(), ["x.ndjson"])
        return (self.folder / "x.ndjson").read_text().splitlines(keepends=True)

    def test_finished_points_are_kept_as_they_stand(self):
        lines = self.whole()
        self.file("x.ndjson.partial", "".join(lines[:3]) + lines[3][:40])
        again = self.resumed()
        self.assertEqual(again[:3], lines[:3])  # context too: they were not computed again
        self.assertEqual(list(map(strip_context, again)), list(map(strip_context, lines)))

    def test_a_finished_file_is_left_as_it_is(self):
        lines = self.whole()
        self.file("x.ndjson", "".join(lines))
        self.assertEqual(self.resumed(), lines)

    def test_points_in_any_order_with_gaps_end_in_point_order(self):
        lines = self.whole()
        self.file("x.ndjson.partial", lines[4] + lines[1])
        again = self.resumed()
        self.assertEqual([again[1], again[4]], [lines[1], lines[4]])
        self.assertEqual(list(map(strip_context, again)), list(map(strip_context, lines)))

    def test_the_file_ends_with_exactly_the_asked_points(self):
        lines = self.whole()
        self.file("x.ndjson", "".join(lines))
        fewer = [w.replace("seed=1:6:+1", "seed=6,2,9") for w in self.WORDS]
        again = self.resumed(*fewer)
        self.assertEqual([json.loads(line)["params"]["seed"] for line in again], [6, 2, 9])
        self.assertEqual(again[:2], [lines[5], lines[1]])

    def test_other_parameters_are_other_points(self):
        lines = self.whole()
        self.file("x.ndjson", "".join(lines))
        again = self.resumed(*[w if w != "8" else "16" for w in self.WORDS])
        self.assertEqual({json.loads(line)["params"]["head_dim"] for line in again}, {16})
        self.assertEqual(len(again), 6)

    def test_a_point_needs_the_same_value_and_not_the_same_text(self):
        words = [*self.WORDS, "--rope-theta", "10000"]
        document = json.loads(self.poslab(*words[:3], "--rope-theta", "1e4", "--seed", "1", "--format", "ndjson"))
        document["context"]["started"] = "long ago"
        document["params"]["rope_theta"] = 10000.0
        del document["params"]["distances"]  # a default
        self.file("x.ndjson.partial", json.dumps(document) + "\n")
        again = self.resumed(*words)
        self.assertEqual(json.loads(again[0])["context"], document["context"])

    def test_another_version_warns(self):
        lines = self.whole()
        document = json.loads(lines[0])
        document["context"]["version"] = "0.0.1"
        self.file("x.ndjson.partial", json.dumps(document) + "\n")
        done = self.run_poslab(*self.WORDS)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), r"\Aposlab: [^\n]*0\.0\.1[^\n]*\n\Z")

    def test_what_is_refused(self):
        self.refused("rope-score", "--sweep", "seed=1,2", "--resume", said="--resume")
        self.refused("rope-score", "--sweep", "seed=1,2", "--resume", "--output", "x.csv", said="ndjson")
        self.refused("rope-score", "--sweep", "seed=1,2", "--resume", "--output", "/dev/null", "--format", "ndjson",
                     said="--resume")
        for content in ("not json\n", "[]\n", '{"schema": 1, "experiment": "table", "params": {}}\n'):
            self.file("x.ndjson", content)
            self.refused(*self.WORDS, said="x.ndjson")
            self.assertEqual((self.folder / "x.ndjson").read_text(), content)

    def test_after_kill(self):
        words = ["shuffle-test", "--seq-len", "96", "--d-model", "64", "--sweep", "seed=1:200:+1", "--output",
                 "x.ndjson", "--resume"]
        partial = self.folder / "x.ndjson.partial"
        process = subprocess.Popen([poslab_process.binary, *words], cwd=self.folder, env=environment())
        deadline = time.monotonic() + poslab_process.TIMEOUT
        while not (partial.exists() and partial.read_bytes().count(b"\n") >= 3):
            self.assertIsNone(process.poll(), "the sweep ended before it could be killed")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        process.kill()
        process.wait()
        kept = partial.read_text()
        kept = kept[:kept.rindex("\n") + 1].splitlines(keepends=True)
        self.assertEqual(self.names(), ["x.ndjson.partial"])
        again = self.resumed(*words)
        self.assertEqual(again[:len(kept)], kept)
        self.assertEqual(swept(map(json.loads, again), "seed"), list(range(1, 201)))

    def test_the_verdict_of_a_finished_point_counts_again(self):
        words = ["shuffle-test", "--sweep", "seed=1,2", "--output", "x.ndjson", "--resume", "--expect"]
        for verdict, status in (("equivariant", 0), ("order-aware", 1)):
            for _ in range(2):
                self.poslab(*words, verdict, status=status)

    def test_failing_then_mended(self):
        words = ["rope-score", "--head-dim", "8", "--output", "x.ndjson", "--sweep"]
        self.refused(*words, "rotary_dim=2,4,7", said="rotary_dim=7")
        kept = (self.folder / "x.ndjson.partial").read_text().splitlines(keepends=True)
        again = self.resumed(*words, "rotary_dim=2,4,8", "--resume")
        self.assertEqual(again[:2], kept)

    def test_two_runs_do_not_write_one_file(self):
        slow = ["shuffle-test", "--seq-len", "2000", "--d-model", "256", "--sweep", "seed=1:500:+1", "--output",
                "x.ndjson"]
        process = subprocess.Popen([poslab_process.binary, *slow], cwd=self.folder, env=environment())
        try:
            partial = self.folder / "x.ndjson.partial"
            while not (partial.exists() and partial.stat().st_size > 0):
                self.assertIsNone(process.poll())
                time.sleep(0.002)
            self.refused("rotate", "--output", "x.ndjson", said="x.ndjson")
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    poslab_process.main()
