#!/usr/bin/python3
"""Flags and configs: numbers, lists, booleans, words, and the order in which they win."""

import json

import poslab_process
from poslab_process import ProcessTest, without_context


class Flags(ProcessTest):
    def test_integers(self):
        for text, value in (("7", 7), ("010", 10), ("0", 0), ("9223372036854775807", 2**63 - 1)):
            self.assertEqual(self.document("rope-score", "--seed", text)["params"]["seed"], value)
            self.assertEqual(self.document("rope-score", f"--seed={text}")["params"]["seed"], value)
        for text in ("+5", "1e3", "0x10", "3.0", "3,0", "9223372036854775808", "-9223372036854775809",
                     "99999999999999999999999", "five", " 5", "5 ", "--5", "1_000", "\u0665"):
            self.refused("rope-score", f"--seed={text}", said="--seed")
            self.refused("table", f"--seq-len={text}", said="--seq-len")

    def test_a_negative_number_is_a_value_and_not_a_flag(self):
        self.refused("rope-score", "--seed", "-1", said="seed")
        self.refused("table", "--seq-len", "-1", said="seq_len")
        self.assertEqual(self.document("rotate", "--angle", "-1.5")["params"]["angle"], -1.5)
        self.assertEqual(self.document("rotate", "--vector", "-2,-1")["params"]["vector"], [-2, -1])

    def test_reals(self):
        for text, value in (("4", 4), ("1e4", 1e4), ("1E+4", 1e4), ("0.5", 0.5), (".5", 0.5), ("1e-300", 1e-300)):
            self.assertEqual(self.document("rotate", "--angle", text)["params"]["angle"], value)
        for text in ("nan", "inf", "-inf", "NaN", "infinity", "1e999", "0x1p3", "+1", "1,5", "1.2.3", "pi", "1e",
                     "1 "):
            self.refused("rotate", f"--angle={text}", said="--angle")
        for text in ("1,nan", "1,inf", "1,", ",1", "1,,2", "1;2"):
            self.refused("rotate", "--vector", text, said="--vector")

    def test_lists(self):
        self.assertEqual(self.document("rope-score", "--placements", "5:2")["params"]["placements"], ["5:2"])
        self.refused("rotate", "--vector", "", said="vector")  # read as an empty list, which rotate refuses
        self.assertEqual(self.document("rope-score", "--query", "null")["params"]["query"], None)
        self.refused("rotate", "--vector", "null", said="--vector")

    def test_booleans(self):
        self.assertIs(self.document("rope-score", "--per-pair")["params"]["per_pair"], True)
        self.assertIs(self.document("rope-score", "--no-per-pair")["params"]["per_pair"], False)
        for words in (["--per-pair", "--no-per-pair"], ["--no-per-pair", "--per-pair"], ["--per-pair", "--per-pair"],
                      ["--no-per-pair", "--no-per-pair"], ["--per-pair=true"], ["--per-pair=false"], ["--per-pair="],
                      ["--no-per-pair=false"]):
            self.refused("rope-score", *words, said="per-pair")
        self.refused("rope-score", "--per-pair", "true", said="true")

    def test_a_renamed_parameter_keeps_its_old_word_with_a_warning(self):
        small = ["extrapolate", "--encodings", "none", "--seeds", "0", "--steps", "1", "--seq-len", "8", "--d-model", "8",
                 "--multiples", "1"]
        new = self.document(*small, "--eval-tokens", "64")
        self.assertEqual(new["params"]["eval_tokens"], 64)

        def renamed(said, *words):
            done = self.run_poslab(*words)
            self.assertEqual((done.returncode, done.stderr.decode()),
                             (0, f"poslab: note: {said} now; the next version no longer takes the old name\n"))
            return [without_context(json.loads(line)) for line in done.stdout.decode().splitlines()]

        flag = "--positions is called --eval-tokens"
        expected = [without_context(new)]
        one_line = ("--format", "ndjson")
        self.assertEqual(renamed(flag, *small, "--positions", "64", *one_line), expected)
        self.assertEqual(renamed(flag, *small, "--positions=64", *one_line), expected)
        config = self.file("old.json", '{"positions": 64}')
        self.assertEqual(renamed(f"{config}: positions is called eval_tokens", *small, "--config", config, *one_line),
                         expected)
        self.assertEqual(renamed("--sweep positions: positions is called eval_tokens", *small, "--sweep", "positions=64"),
                         expected)
        self.poslab(*small, "--positions", "64", "--quiet")
        self.refused(*small, "--positions", "64", "--eval-tokens", "64", said="--eval-tokens is given 2 times")
        self.refused(*small, "--config", self.file("both.json", '{"positions": 64, "eval_tokens": 64}'),
                     said="eval_tokens is given under its old and its new name")
        kept = self.folder / "points.ndjson"
        sweep = [*small, "--sweep", "eval_tokens=64,128", "--output", "points.ndjson"]
        self.poslab(*sweep)
        lines = [line.replace("eval_tokens", "positions") for line in kept.read_text().splitlines(keepends=True)]
        kept.write_text("".join(lines))
        self.poslab(*sweep, "--resume")
        self.assertEqual(kept.read_text(), "".join(lines), "points of an older file are found again")

    def test_what_the_command_line_does_not_take(self):
        self.refused("rope-score", "--seed", "1", "--seed", "2", said="--seed")
        self.refused("rope-score", "--seed=", "--head-dim", "8", said="--seed=")
        self.refused("rope-score", "--seed", said="--seed")
        self.refused("rope-score", "--seed", "--head-dim", "8", said="--seed")
        self.refused("rotate", "--output", "--quiet", said="--output")
        self.refused("rope-score", "++", said="++")
        self.refused("rope-score", "--", said="--")
        self.refused("rope-score", "--", "--seed", "1", said="--")
        self.refused("rope-score", "-s", "1", said="-s")
        self.refused("rope-score", "--no-seed", said="--no-seed")
        self.refused("rope-score", "stray", said="stray")
        self.refused("rope-score", "", said="''")
        self.refused("--seed", "1", said="--seed")
        self.assertEqual(self.names(), [])

    def test_text_must_be_utf8(self):
        self.refused("shuffle-test", "--words", b"caf\xe9".decode("utf-8", "surrogateescape"), said="UTF-8")
        self.assertEqual(self.document("shuffle-test", "--words", "le caf\u00e9")["params"]["words"], "le caf\u00e9")

    def test_bad_values_are_told_in_one_line(self):
        cases = [
            (["rope-score", "--rotary-dim", "7"], ["rotary_dim", "7"]),
            (["shuffle-test", "--d-model", "10", "--n-heads", "4"], ["10", "4"]),
            (["shuffle-test", "--order", "0,1,2"], ["order"]),
            (["shuffle-test", "--order", "0,1,2,3,3"], ["order"]),
            (["shuffle-test", "--order", "0,1,2,3,5"], ["order"]),
            (["rope-score", "--placements=-1:2"], ["-1"]),
            (["rope-score", "--placements", "5"], ["'5'"]),
            (["rope-score", "--placements", "a:b"], ["placements"]),
            (["rotate", "--position=-1"], ["position", "-1"]),
            (["embed", "--position-table", "absent.npy"], ["absent.npy", "No such file or directory"]),
            (["table", "--seq-len", "1000000000", "--d-model", "4096", "--format", "json"], ["--save-npy"]),
        ]
        for words, said in cases:
            with self.subTest(words):
                self.refused(*words, said=said)
        self.assertEqual(self.names(), [])


class Configs(ProcessTest):
    def config(self, content, name="c.json"):
        return self.file(name, content if isinstance(content, (str, bytes)) else json.dumps(content))

    def test_config_below_flags_below_sweep(self):
        self.config({"seed": 5, "head_dim": 32, "rope_theta": 4})
        self.assertEqual(self.document("rope-score", "--config", "c.json")["params"]["seed"], 5)
        params = self.document("rope-score", "--config", "c.json", "--seed", "6")["params"]
        self.assertEqual((params["seed"], params["head_dim"], params["rope_theta"]), (6, 32, 4))
        swept = self.points("rope-score", "--config", "c.json", "--seed", "6", "--sweep", "seed=7,8")
        self.assertEqual([p["params"]["seed"] for p in swept], [7, 8])
        self.assertEqual({p["params"]["head_dim"] for p in swept}, {32})

    def test_a_document_is_a_config(self):
        whole = self.document("rope-score", "--seed", "3", "--per-pair", "--layout", "half")
        self.config(whole)
        self.assertEqual(without_context(self.document("rope-score", "--config", "c.json")), without_context(whole))
        self.config({"experiment": "rope-score", "params": {"seed": 9}})
        self.assertEqual(self.document("rope-score", "--config", "c.json")["params"]["seed"], 9)
        self.config({"params": {"seed": 9}, "summary": {}, "rows": [], "context": {}, "schema": 1, "fields": {}})
        self.assertEqual(self.document("rope-score", "--config", "c.json")["params"]["seed"], 9)

    def test_reals_take_integers_and_null_means_absent(self):
        self.config('{"rope_theta": 4, "head_dim": null, "distances": null}')
        self.assertEqual(self.document("rope-score", "--config", "c.json")["params"]["rope_theta"], 4)

    def test_what_is_refused(self):
        cases = [
            ('{"rope_thta": 4}', ["rope_thta", "'rope_theta'"]),
            ('{"seed": 1, "seed": 2}', ["seed"]),
            ('{"params": {"seed": 1, "seed": 2}}', ["seed"]),
            ('{"params": {}, "params": {}}', ["params"]),
            ('{"seed": 3.0}', ["seed", "3.0"]),
            ('{"seed": 1e3}', ["seed"]),
            ('{"seed": "3"}', ["seed"]),
            ('{"seed": true}', ["seed"]),
            ('{"seed": null}', ["seed", "null"]),
            ('{"seed": 9223372036854775808}', ["seed"]),
            ('{"seed": 18446744073709551616}', ["seed"]),
            ('{"rope_theta": "4"}', ["rope_theta"]),
            ('{"rope_theta": 1e999}', []),
            ('{"rope_theta": NaN}', []),
            ('{"rope_theta": Infinity}', []),
            ('{"per_pair": 1}', ["per_pair"]),
            ('{"per_pair": "true"}', ["per_pair"]),
            ('{"layout": "interlaced"}', ["interlaced", "'interleaved'"]),
            ('{"layout": 1}', ["layout"]),
            ('{"placements": "5:2"}', ["placements"]),
            ('{"placements": [5]}', ["placements"]),
            ('{"query": [1, null]}', ["query"]),
            ('{"output": "x.json"}', ["output"]),
            ('{"experiment": "table", "params": {}}', ["table", "rope-score"]),
            ('{"experiment": 3, "params": {}}', ["experiment"]),
            ('{"params": {}, "seed": 3}', ["seed"]),
            ('{"params": []}', ["params"]),
            ('{"schema": 2, "params": {}}', ["schema", "2"]),
            ('[]', ["object"]),
            ('3', ["object"]),
            ('', []),
            ('{"seed": 1', []),
            ('{"seed": 1} x', []),
            ('{"seed": 1}\n{"seed": 2}', []),
            ('{"seed": 01}', []),
            ("{'seed': 1}", []),
            ('{"seed": 1,}', []),
            (b'{"vectors": "caf\xe9"}', []),
            ("[" * 17 + "]" * 17, ["deep"]),
            ('{"seed": ' + "[" * 16 + "]" * 16 + "}", ["deep"]),
            ("[" * 1000000, ["deep"]),
            ('{"a":' * 1000000, ["deep"]),
        ]
        for content, said in cases:
            with self.subTest(content[:40]):
                self.config(content)
                self.refused("rope-score", "--config", "c.json", said=["c.json", *said])
        self.assertEqual(self.names(), ["c.json"])

    def test_files_that_are_no_config(self):
        self.refused("rope-score", "--config", "absent.json", said=["absent.json", "No such file or directory"])
        self.refused("rope-score", "--config", ".", said="Is a directory")
        self.refused("rope-score", "--config", "")
        with open(self.folder / "huge.json", "wb") as huge:  # sparse: no disk holds it
            huge.truncate(64 * 1024 * 1024 + 1)
        self.refused("rope-score", "--config", "huge.json", said=["huge.json", "64"])

    def test_sweep_in_a_config(self):
        self.config({"head_dim": 4, "sweep": ["seed=1,2", "layout=half,interleaved"]})
        swept = self.points("rope-score", "--config", "c.json")
        self.assertEqual([(p["params"]["seed"], p["params"]["layout"]) for p in swept],
                         [(1, "half"), (1, "interleaved"), (2, "half"), (2, "interleaved")])
        replaced = self.points("rope-score", "--config", "c.json", "--sweep", "rope_theta=10,100")
        self.assertEqual([(p["params"]["seed"], p["params"]["rope_theta"]) for p in replaced], [(1, 10), (1, 100)])
        self.config({"experiment": "rope-score", "params": {"head_dim": 4}, "sweep": ["seed=3,4"]})
        self.assertEqual([p["params"]["seed"] for p in self.points("rope-score", "--config", "c.json")], [3, 4])
        for sweep in ({"seed": "1,2"}, "seed=1,2", [1], ["seed"], ["sed=1,2"]):
            self.config({"sweep": sweep})
            self.refused("rope-score", "--config", "c.json", said="s")


if __name__ == "__main__":
    poslab_process.main()
