#!/usr/bin/python3
"""The contract that every registered experiment keeps, read from `poslab list --format json`."""

import csv
import functools
import json
import os
import pty
import re
import shutil
import subprocess
import tempfile

import poslab_process
from poslab_process import ROOT, ProcessTest, strip_context

RUN_OPTIONS = {"format", "output", "config", "sweep", "jobs", "shard", "resume", "threads", "quiet", "color",
               "save_npy", "csv_params", "expect"}

# Where the defaults train a model: the same with less work. CHECKPOINT is one of two steps.
LIGHTER = {
    "train": ["--steps", "4", "--batch-size", "4", "--log-every", "1"],
    "extrapolate": ["--encodings", "none,rope", "--seeds", "0,1", "--steps", "4", "--batch-size", "2", "--eval-tokens", "256"],
    "perplexity": ["--model", "CHECKPOINT"],
    "recall": ["--model", "CHECKPOINT", "--n-trials", "4"],
}
TRAIN = ["train", "--task", "passkey", "--steps", "2", "--batch-size", "2", "--d-model", "16", "--n-layers", "1",
         "--n-heads", "2", "--seq-len", "32", "--quiet"]


def as_text(text):
    """A JSON text with every number kept as it is written."""
    return json.loads(text, parse_float=str, parse_int=str)


def cell(value):
    """How CSV writes a value whose numbers are text already."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def flat(row):
    """A JSON row as CSV's columns: a list of numbers is spread over name_0, name_1, ..."""
    cells = {}
    for name, value in row.items():
        if isinstance(value, list):
            cells.update({f"{name}_{i}": cell(v) for i, v in enumerate(value)})
        else:
            cells[name] = cell(value)
    return cells


def for_each_experiment(test):
    """Runs test(self, experiment) for every one, each as a subtest of its own."""
    @functools.wraps(test)
    def run(self):
        for experiment in self.experiments:
            with self.subTest(experiment["name"]):
                test(self, experiment)
    return run


class EveryExperiment(ProcessTest):
    answers = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="poslab checkpoint ")
        cls.addClassCleanup(folder.cleanup)
        cls.checkpoint = folder.name + "/model"
        subprocess.run([poslab_process.binary, *TRAIN, "--save-model", cls.checkpoint], check=True,
                       stdout=subprocess.DEVNULL, env=poslab_process.environment())

    def setUp(self):
        super().setUp()
        self.listed = json.loads(self.poslab("list", "--format", "json"))
        self.experiments = self.listed["experiments"]
        self.assertGreaterEqual({e["name"] for e in self.experiments},
                                {"shuffle-test", "embed", "table", "rotate", "rope-score"})

    def ask(self, e, *words):
        """stdout of an experiment that is spared heavy work; nothing may stand on stderr."""
        lighter = [self.checkpoint if w == "CHECKPOINT" else w for w in LIGHTER.get(e["name"], ())]
        return self.poslab(e["name"], *lighter, "--quiet", *words)

    def answer(self, e, form="json"):
        """What ask gives, asked for once."""
        if (e["name"], form) not in self.answers:
            self.answers[e["name"], form] = self.ask(e, "--format", form)
        return self.answers[e["name"], form]

    @for_each_experiment
    def test_every_subcommand_runs_without_flags(self, e):
        done = self.run_poslab(e["name"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["experiment"], e["name"])

    def test_run_options_are_those_of_the_contract(self):
        self.assertEqual({f["name"] for f in self.listed["run_options"]}, RUN_OPTIONS)

    @for_each_experiment
    def test_names_do_not_collide(self, e):
        params, rows = [{f["name"] for f in e[key]} for key in ("params", "rows")]
        self.assertFalse(params & RUN_OPTIONS)
        # perplexity --tokens FILE.npy and its column of tokens scored are both named by users' scripts.
        shared = {"tokens"} if e["name"] == "perplexity" else set()
        self.assertFalse(rows & ((params - shared) | {"experiment"}))
        for fields in (e["params"], e["summary"], e["rows"]):
            names = [f["name"] for f in fields]
            self.assertEqual(len(set(names)), len(names))
        lists = {f["name"] for f in e["rows"] if f["list"]}
        self.assertFalse([n for n in rows for s in lists if re.fullmatch(re.escape(s) + r"_\d+", n)])
        if e["verdicts"]:
            self.assertIn("verdict", {f["name"] for f in e["summary"]})

    @for_each_experiment
    def test_fields_explain_themselves(self, e):
        self.assertTrue(e["question"].endswith("?"), e["question"])
        for f in e["params"] + e["summary"] + e["rows"]:
            self.assertTrue(f["help"], f["name"])

    @for_each_experiment
    def test_documents_hold_the_listed_fields(self, e):
        document = json.loads(self.answer(e))
        self.assertEqual(document["experiment"], e["name"])
        for key in ("params", "summary"):
            self.assertEqual(list(document[key]), [f["name"] for f in e[key]])
        listed = [f["name"] for f in e["rows"]]
        for row in document["rows"]:
            self.assertEqual(list(row), [n for n in listed if n in row])
            self.assertEqual(list(row), list(document["rows"][0]))

    @for_each_experiment
    def test_csv_equals_json_cell_by_cell(self, e):
        document = as_text(self.answer(e))
        read = list(csv.DictReader(self.answer(e, "csv").splitlines(keepends=True)))
        if document["rows"] or e["rows"]:
            expected = [flat(row) for row in document["rows"]]
        else:
            expected = [{k: cell(v) for k, v in document["summary"].items() if not isinstance(v, list)}]
        self.assertEqual(read, expected)

    @for_each_experiment
    def test_ndjson_is_the_document_on_one_line(self, e):
        line = self.answer(e, "ndjson")
        self.assertEqual(line.count("\n"), 1)
        pretty = as_text(self.answer(e))
        one_line = as_text(line)
        self.assertEqual({k: v for k, v in one_line.items() if k != "context"},
                         {k: v for k, v in pretty.items() if k != "context"})

    @for_each_experiment
    def test_reruns_are_byte_identical_for_1_and_2_threads(self, e):
        one = strip_context(self.answer(e))
        self.assertNotIn('"context"', one)
        for threads in ("1", "2"):
            again = strip_context(self.ask(e, "--format", "json", "--threads", threads))
            self.assertEqual(again, one, threads)
        for form in ("csv", "text"):
            texts = {self.ask(e, "--format", form, "--threads", t) for t in ("1", "2")}
            self.assertEqual(len(texts), 1, form)

    @for_each_experiment
    def test_params_fed_back_reproduce_the_document(self, e):
        document = self.answer(e)
        self.file("whole.json", document)
        self.file("params.json", json.dumps(json.loads(document)["params"]))
        for config in ("whole.json", "params.json"):
            again = self.poslab(e["name"], "--quiet", "--format", "json", "--config", config)
            self.assertEqual(strip_context(again), strip_context(document), config)

    @for_each_experiment
    def test_params_fed_back_as_flags_reproduce_the_document(self, e):
        document = self.answer(e)
        words, kinds = [], {f["name"]: f["type"] for f in e["params"]}
        for name, value in as_text(document)["params"].items():
            flag = "--" + name.replace("_", "-")
            if isinstance(value, bool):
                words.append(flag if value else "--no-" + flag[2:])
            elif value is None:
                words += [] if kinds[name] == "boolean" else [flag, "null"]
            elif value == [] or value == "":
                words += [flag, ""]
            else:
                words += [flag, ",".join(value) if isinstance(value, list) else value]
        again = self.poslab(e["name"], "--quiet", "--format", "json", *words)
        self.assertEqual(strip_context(again), strip_context(document), words)

    @for_each_experiment
    def test_units_stand_in_the_document(self, e):
        units = {f["name"]: f["unit"] for key in ("params", "summary", "rows") for f in e[key] if f["unit"]}
        self.assertEqual(json.loads(self.answer(e)).get("fields", {}), units)

    def test_every_flag_stands_in_help_man_and_completions(self):
        man = self.poslab("generate", "man").replace("\\", "")
        completions = {shell: self.poslab("generate", f"complete-{shell}") for shell in ("bash", "zsh", "fish")}
        for e in self.experiments:
            with self.subTest(e["name"]):
                help_text = self.poslab(e["name"], "--help")
                for text in (man, *completions.values()):
                    self.assertIn(e["name"], text)
                for name in {f["name"] for f in e["params"]} | RUN_OPTIONS:
                    flag = name.replace("_", "-")
                    for where, text in (("help", help_text), ("man", man), ("bash", completions["bash"]),
                                        ("zsh", completions["zsh"])):
                        self.assertRegex(text, rf"--(?:\[no-\])?{flag}\b(?!-)", where)
                    self.assertRegex(completions["fish"], rf"(?:-l |--){flag}\b(?!-)")

    def test_lists_of_words_name_what_takes_them(self):
        def listed(kind):
            rows = json.loads(self.poslab("list", kind, "--format", "json"))[kind]
            text = self.poslab("list", kind)
            for row in rows:
                self.assertRegex(text, rf"(?m)^(preset  |family  )?{row['word']}\b")
            return {row["word"]: row for row in rows}

        for kind, params in (("methods", {"encoding", "encodings"}), ("scalings", {"rope_type", "extend_types"})):
            takes = {(word, e["name"]) for e in self.experiments for f in e["params"] if f["name"] in params
                     for word in f["words"]}
            self.assertEqual({(word, name) for word, row in listed(kind).items() for name in row["experiments"]}, takes)
        alibi = listed("methods")["alibi"]
        self.assertIn("train", alibi["experiments"])
        self.assertEqual((alibi["acts_on"], alibi["parameters"]), (["score_bias"], ["alibi_bias_max"]))
        self.assertIn("2108.12409", alibi["source"])
        yarn = listed("scalings")["yarn"]
        self.assertIn("extend", yarn["experiments"])
        self.assertIn("2309.00071", yarn["source"])
        models = listed("models")
        self.assertEqual(models["llama-3.1-8b"]["kind"], "preset")
        self.assertTrue(models["llama"]["runs"])

    def test_help_is_as_wide_as_a_page(self):
        for e in self.experiments:
            for line in self.poslab(e["name"], "--help").splitlines():
                if not line.startswith(("example: ", "poslab ")):
                    self.assertLessEqual(len(line), 100, line)

    def test_groups_stand_under_their_titles(self):
        title = "positions on several axes"
        help_text = self.poslab("rotate", "--help")
        self.assertRegex(help_text, rf"\n\n{title}\n  --multi-axis")
        self.assertLess(help_text.index(f"\n{title}\n"), help_text.index("\nrun options\n"))
        self.assertIn(f".PP\n.I {title}\n.TP\n", self.poslab("generate", "man"))

    def test_completions_are_valid_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                continue
            script = self.file(shell, self.poslab("generate", f"complete-{shell}"))
            done = subprocess.run([shell, "-n", script], capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""), shell)

    def test_bash_completes_subcommands_and_flags(self):
        script = self.file("bash", self.poslab("generate", "complete-bash"))
        ask = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
               'f=$(complete -p poslab | sed -E "s/.*-F ([^ ]+).*/\\1/"); "$f" poslab "${COMP_WORDS[COMP_CWORD]}"; '
               'printf "%s\\n" "${COMPREPLY[@]}"')

        def completed(*words):
            done = subprocess.run(["bash", "-c", ask, "bash", str(script), "poslab", *words], capture_output=True)
            self.assertEqual(done.stderr, b"")
            return [w.strip() for w in done.stdout.decode().splitlines()]

        self.assertEqual(completed("rope-s"), ["rope-score"])
        self.assertEqual(completed("rope-score", "--rope-th"), ["--rope-theta"])
        self.assertEqual(sorted(completed("rope-score", "--layout", "")), ["half", "interleaved"])
        self.assertEqual(completed("rope-score", "--layout", "=", "h"), ["half"])
        self.assertEqual(completed("extend", "--model", "llama-3.1"), ["llama-3.1-8b"])
        self.assertEqual(completed("inspect", "llama-3.1"), ["llama-3.1-8b"])
        self.assertEqual(completed("extrapolate", "--encodings", "rope,ali"), ["rope,alibi"])
        self.assertEqual(completed("train", "--encoding", "ali"), ["alibi"])
        self.assertEqual(completed("extend", "--sweep", "seq"), ["seq_len="])
        self.assertEqual(completed("probe", "--expect", "mis"), ["mismatch"])
        self.assertEqual(completed("list", "sc"), ["scalings"])
        self.assertEqual(completed("help", "rope-s"), ["rope-score"])
        self.assertEqual(completed("table", "--seq-len", ""), [""])

    def test_interactive_bash_completes_files(self):
        """What readline makes of them: quoted, never run, and a folder without a blank behind it."""
        script = self.file("bash", self.poslab("generate", "complete-bash"))
        (self.folder / "models of mine").mkdir()
        (self.folder / "models of mine" / "config.json").write_text("{}")
        (self.folder / "$(touch ran).npy").write_text("")
        ask = (f"source '{script}'; poslab() {{ printf '<%s>' \"$@\"; echo; }}; PS1=; bind 'set bell-style none'\n"
               "poslab perplexity --model mod\tconf\t\n"
               "poslab table --compare-with \\$\t\n"
               "exit\n")
        master, slave = pty.openpty()
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], cwd=self.folder, stdin=slave, stdout=slave,
                                 stderr=slave, env=poslab_process.environment(TERM="dumb"), start_new_session=True)
        os.close(slave)
        os.write(master, ask.encode())
        seen = b""
        try:
            while chunk := os.read(master, 4096):
                seen += chunk
        except OSError:  # the shell has closed it
            pass
        os.close(master)
        self.assertEqual(shell.wait(), 0)
        said = seen.decode().replace("\r", "")
        self.assertIn("\n<perplexity><--model><models of mine/config.json>\n", said)
        self.assertIn("\n<table><--compare-with><$(touch ran).npy>\n", said)
        self.assertFalse((self.folder / "ran").exists())

    @for_each_experiment
    def test_examples_run(self, e):
        self.assertEqual(e["example"].split(" ")[:2], ["poslab", e["name"]])
        if ".npy" in e["example"]:  # what a user has dumped from an engine
            subprocess.run([ROOT / "scripts" / "dump_example.py"], check=True, cwd=self.folder,
                           stdout=subprocess.DEVNULL)
        done = subprocess.run(["bash", "-c", f'poslab() {{ "$POSLAB" "$@" --quiet; }}; {e["example"]} > answer'],
                              capture_output=True, cwd=self.folder, timeout=poslab_process.TIMEOUT,
                              env=poslab_process.environment(POSLAB=poslab_process.binary))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertGreater((self.folder / "answer").stat().st_size, 0)


if __name__ == "__main__":
    poslab_process.main()
