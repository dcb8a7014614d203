#!/usr/bin/python3
"""Training and studies that something stops: kill -9, signals, full disks, a second writer, damaged checkpoints."""

import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import time

import poslab_process
from poslab_process import ProcessTest, environment, strip_context, without_context

FILES = ("config.json", "model.safetensors", "training.safetensors")
SMALL = ["--d-model", "16", "--n-layers", "1", "--n-heads", "2", "--seq-len", "16", "--batch-size", "4", "--threads", "1"]


class Runs(ProcessTest):
    def start(self, *words, **kwargs):
        process = subprocess.Popen([poslab_process.binary, *map(str, words)], cwd=self.folder, env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

        def end():
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()

        self.addCleanup(end)
        return process

    def wait_until(self, holds, process):
        deadline = time.monotonic() + poslab_process.TIMEOUT
        while not holds():
            self.assertIsNone(process.poll(), "the run ended before it could be stopped")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)

    def bytes_of(self, folder):
        return {name: (self.folder / folder / name).read_bytes() for name in FILES}

    def lines(self, name):
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


class Checkpoints(Runs):
    TRAIN = ["train", *SMALL, "--steps", "150"]

    def continued(self, folder):
        return ["--continue-from", folder] if (self.folder / folder / "config.json").exists() else []

    def test_kill_at_any_moment_of_a_saving_run(self):
        self.poslab(*self.TRAIN, "--save", "whole", "--quiet")
        saving = [*self.TRAIN, "--save", "m", "--save-every", "1"]
        moments = random.Random(0)
        for _ in range(12):
            process = self.start(*saving, *self.continued("m"))
            time.sleep(moments.uniform(0.02, 0.3))
            process.kill()
            process.wait()
            if (self.folder / "m").exists():  # then it is whole
                self.poslab("perplexity", "--model", "m", "--seq-len", "16", "--positions", "32")
        self.poslab(*saving, *self.continued("m"), "--quiet")
        self.assertEqual(self.bytes_of("m"), self.bytes_of("whole"))
        self.assertEqual(self.names(), ["m", "whole"])

    def test_a_disk_that_fills_leaves_the_old_checkpoint(self):
        self.poslab("train", *SMALL, "--steps", "150", "--warmup", "9", "--save", "m", "--quiet")
        before = self.bytes_of("m")
        size = len(before["model.safetensors"])
        words = ["train", *SMALL, "--steps", "160", "--warmup", "9", "--save", "m", "--continue-from", "m"]
        for limit in (100, size // 2, size + 10):  # in the config, the model, the state of training
            message = self.refused(*words, said=["cannot write m", "file too large"],
                                   preexec_fn=lambda most=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
            self.assertNotIn("not finite", message)
            self.assertEqual(self.bytes_of("m"), before)
            self.assertEqual(self.names(), ["m"])

    def test_a_folder_has_one_writer(self):
        process = self.start("train", *SMALL, "--steps", "1000000", "--save", "m", "--save-every", "20")
        self.wait_until((self.folder / "m").exists, process)
        self.refused("train", *SMALL, "--steps", "2", "--save", "m", said=["cannot write m", "another run is writing it"])
        self.refused("train", *SMALL, "--steps", "2", "--save", "m/", said="another run is writing it")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 0)
        document = json.loads(process.stdout.read())
        self.assertTrue(document["summary"]["interrupted"])
        self.assertGreaterEqual(document["summary"]["steps_done"], 20)

    def test_what_no_config_can_name_is_refused_before_training(self):
        # A second of training is some hundred steps: this many would not end.
        self.refused("train", *SMALL, "--rope-type", "ntk_by_parts", "--factor", "2", "--steps", 10 ** 9, "--save", "m",
                     said="ntk_by_parts")
        self.assertEqual(self.names(), [])

    def test_a_loss_that_is_no_number_names_its_step(self):
        words = ["train", *SMALL, "--steps", "9", "--save", "m", "--save-every", "1", "--learning-rate", "1e30",
                 "--clip-norm", "0", "--warmup", "0", "--weight-decay", "0"]
        self.refused(*words, said=["not finite at step 2", "m holds the model after step 1"])
        self.poslab("perplexity", "--model", "m", "--seq-len", "16", "--positions", "32")

    def test_damaged_files_are_named(self):
        self.poslab("train", *SMALL, "--steps", "2", "--save", "m", "--quiet")
        for name in ("model.safetensors", "training.safetensors"):
            for damage, said in (
                    (lambda raw: raw[:-3], "truncated"),
                    (lambda raw: raw[:40], "truncated"),
                    (lambda raw: b"", "is empty"),
                    (lambda raw: self.renamed(raw), "missing"),
                    (lambda raw: self.added(raw), "extra"),
                    (lambda raw: self.reshaped(raw), "shape")):
                with self.subTest(name=name, said=said):
                    shutil.copytree(self.folder / "m", self.folder / "bad", dirs_exist_ok=True)
                    path = self.folder / "bad" / name
                    path.write_bytes(damage(path.read_bytes()))
                    self.refused("train", *SMALL, "--steps", "3", "--continue-from", "bad", said=[name, said])

    @staticmethod
    def with_header(raw, change):
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + size])
        data = raw[8 + size:] + change(header, len(raw) - 8 - size)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data

    @staticmethod
    def first(header):
        return next(name for name in header if name != "__metadata__")

    def renamed(self, raw):
        return self.with_header(raw, lambda h, n: h.update({"other": h.pop(self.first(h))}) or b"")

    def added(self, raw):
        extra = {"dtype": "F32", "shape": [1]}
        return self.with_header(raw, lambda h, n: h.update({"other": extra | {"data_offsets": [n, n + 4]}}) or bytes(4))

    def reshaped(self, raw):
        return self.with_header(raw, lambda h, n: h[self.first(h)].update(shape=[1, *h[self.first(h)]["shape"]]) or b"")


class Signals(Runs):
    def test_a_stopped_sweep_begins_no_other_point_and_resumes(self):
        for number, jobs in ((signal.SIGINT, 1), (signal.SIGTERM, 2)):
            with self.subTest(number.name):
                name = f"{number.name}.ndjson"
                words = ["train", *SMALL, "--steps", "1000", "--sweep", "seed=0:6:+1", "--jobs", jobs, "--quiet"]
                process = self.start(*words, "--output", name)
                self.wait_until(lambda: self.lines(name + ".partial"), process)
                process.send_signal(number)
                self.assertEqual((process.wait(), process.stdout.read()), (2, b""))
                self.assertRegex(process.stderr.read().decode(), r"\Aposlab: [^\n]*interrupted[^\n]*--resume[^\n]*\n\Z")
                kept = self.lines(name + ".partial")
                self.assertTrue(0 < len(kept) < 7, len(kept))
                for line in kept:
                    self.assertEqual(json.loads(line)["summary"]["steps_done"], 1000)
                self.poslab(*words, "--output", name, "--resume")
                again = self.lines(name)
                self.assertEqual(again[:len(kept)], kept)
                self.assertEqual(strip_context("\n".join(again)), strip_context(self.poslab(*words).rstrip("\n")))

    def test_an_interrupted_study_says_so(self):
        process = self.start("extrapolate", "--steps", "100000", "--save", "study")
        self.wait_until((self.folder / "study").exists, process)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        self.assertEqual((process.wait(), process.stdout.read()), (2, b""))
        self.assertRegex(process.stderr.read().decode(), r"\Aposlab: [^\n]*interrupted[^\n]*study[^\n]*\n\Z")


class Studies(Runs):
    STUDY = ["extrapolate", "--seq-len", "16", "--d-model", "16", "--steps", "150", "--positions", "256", "--multiples",
             "1,2", "--encodings", "rope,learned,alibi", "--seeds", "0,1,2", "--extend-types", "linear",
             "--extend-steps", "0,20", "--threads", "1"]

    def kept(self):
        folder = self.folder / "study"
        return {p.name: p.read_bytes() for p in folder.glob("*.json")} if folder.exists() else {}

    def test_a_killed_study_goes_on_by_encoding_and_seed(self):
        whole = self.document(*self.STUDY)
        process = self.start(*self.STUDY, "--save", "study")
        self.wait_until(self.kept, process)
        process.kill()
        process.wait()
        kept = self.kept()
        self.assertLess(len(kept), 9)
        again = self.document(*self.STUDY, "--save", "study")
        self.assertEqual({name: self.kept()[name] for name in kept}, kept)
        self.assertEqual(len(self.kept()), 9)
        again["params"]["save"] = None
        self.assertEqual(without_context(again), without_context(whole))
        # Its own bytes too, when everything is kept; other parameters find nothing of it.
        self.assertEqual(strip_context(self.poslab(*self.STUDY, "--save", "study")),
                         strip_context(self.poslab(*self.STUDY, "--save", "study")))
        self.poslab(*[w if w != "150" else "2" for w in self.STUDY], "--save", "study")
        self.assertEqual(len(self.kept()), 18)

    def test_a_killed_sweep_over_both_resumes_point_by_point(self):
        words = [w if w != "150" else "300" for w in self.STUDY]
        for name in ("--encodings", "--seeds"):
            del words[words.index(name):words.index(name) + 2]
        words += ["--sweep", "encodings=rope;learned", "--sweep", "seeds=0;1;2"]
        process = self.start(*words, "--output", "x.ndjson")
        self.wait_until(lambda: len(self.lines("x.ndjson.partial")) >= 1, process)
        process.kill()
        process.wait()
        self.poslab(*words, "--output", "x.ndjson", "--resume")
        self.assertEqual(strip_context((self.folder / "x.ndjson").read_text()), strip_context(self.poslab(*words)))
        self.assertEqual({(r["encoding"], r["seed"]) for line in self.lines("x.ndjson") for r in json.loads(line)["rows"]},
                         {(e, s) for e in ("rope", "learned") for s in (0, 1, 2)})

    def test_damaged_results_are_named(self):
        words = ["extrapolate", "--steps", "2", "--seq-len", "8", "--encodings", "none", "--seeds", "4", "--save", "study"]
        self.poslab(*words)
        path, = (self.folder / "study").glob("none-seed4-*.json")
        good = path.read_text()
        for text in ("", "{}", good.replace('"steps": "2"', '"steps": "3"'), good.replace("[", "[1, ", 1), good[:-9]):
            path.write_text(text)
            self.refused(*words, said=path.name)


class Progress(Runs):
    def assert_bar(self, expected, *words):
        """A terminal shows a bar like this some time during the run."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal can be opened here: {error}")
        process = subprocess.Popen([poslab_process.binary, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=follower, env=environment(TERM="xterm"))
        os.close(follower)
        shown = b""
        deadline = time.monotonic() + poslab_process.TIMEOUT
        try:
            while not re.search(expected, shown):
                self.assertLess(time.monotonic(), deadline, (words, shown[-200:]))
                self.assertIsNone(process.poll(), (words, shown[-200:]))
                if select.select([leader], [], [], 0.5)[0]:
                    shown += os.read(leader, 65536)
        finally:
            process.kill()
            process.wait()
            os.close(leader)

    def test_a_bar_tells_loss_speed_and_time_left(self):
        left = r"tokens/s  [\d: s]+ left"
        loss = r"loss \d+\.\d{3}, \d+ " + left
        cases = [
            (["train", *SMALL, "--steps", "1000000"], r"train \S+ +\d+%  " + loss),
            (["train", *SMALL, "--steps", "1000000", "--sweep", "seed=1,2"], loss),
            (["extrapolate", "--steps", "100000"], "rope seed 0: " + loss),
            (["perplexity", "--positions", "1000000", "--seq-len", "64"], r"  \d+ " + left),
        ]
        for words, expected in cases:
            with self.subTest(words[0]):
                self.assert_bar(expected.encode(), *words)


if __name__ == "__main__":
    poslab_process.main()
