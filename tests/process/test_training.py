#!/usr/bin/python3
"""Training and studies that something stops: kill -9, signals, full disks, a second writer, damaged checkpoints."""

import hashlib
import json
import os
import pathlib
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

    def stop_midway(self, words_of, ready, number, status):
        """Sends the signal to a run that is ready, and returns how many steps it took a run to be stopped by it: those
        of a fast machine end too soon for that, and start again with twice as many."""
        steps = 20
        while steps < 20000:
            process = self.start(*words_of(steps))
            while process.poll() is None and not ready():
                time.sleep(0.002)
            process.send_signal(number)
            said = process.communicate(timeout=poslab_process.TIMEOUT)
            if process.returncode == status:
                return steps, *said
            self.assertEqual(process.returncode, 0, said)
            for name in self.names():
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            steps *= 2
        self.fail("every run ended as if no signal had come")

    def state_of(self, folder):
        """Each file's size and checksum: bytes that differ would take unittest minutes to show."""
        files = {name: (self.folder / folder / name).read_bytes() for name in FILES}
        return {name: (len(raw), hashlib.sha256(raw).hexdigest()) for name, raw in files.items()}

    def lines(self, name):
        path = self.folder / name
        try:
            return path.read_text().splitlines()
        except FileNotFoundError:  # not yet there, or renamed a moment ago
            return []


class Checkpoints(Runs):
    TRAIN = ["train", *SMALL, "--steps", "150"]

    def continued(self, folder):
        return ["--continue-from", folder] if (self.folder / folder / "config.json").exists() else []

    def test_kill_at_any_moment_of_a_saving_run(self):
        self.poslab(*self.TRAIN, "--save-model", "whole", "--quiet")
        saving = [*self.TRAIN, "--save-model", "m", "--save-every", "1"]
        moments = random.Random(0)
        for _ in range(12):
            process = self.start(*saving, *self.continued("m"))
            time.sleep(moments.uniform(0.02, 0.3))
            process.kill()
            process.wait()
            if (self.folder / "m").exists():  # then it is whole
                self.assertEqual(sorted(os.listdir(self.folder / "m")), sorted(FILES))
                self.poslab("perplexity", "--model", "m", "--seq-len", "16", "--eval-tokens", "32")
        self.poslab(*saving, *self.continued("m"), "--quiet")
        self.assertEqual(self.state_of("m"), self.state_of("whole"))
        self.assertEqual(self.names(), ["m", "whole"])

    def test_what_a_killed_run_left_behind_is_swept_away(self):
        for left in ("m.partial", "m.previous"):
            (self.folder / left).mkdir()
            self.file(f"{left}/other.safetensors", b"half")
        self.file("m.lock", b"")
        self.poslab("train", *SMALL, "--steps", "2", "--save-model", "m", "--quiet")
        self.assertEqual(self.names(), ["m"])
        self.assertEqual(sorted(os.listdir(self.folder / "m")), sorted(FILES))

    def test_a_disk_that_fills_leaves_the_old_checkpoint(self):
        self.poslab("train", *SMALL, "--steps", "150", "--warmup", "9", "--save-model", "m", "--quiet")
        before = self.state_of("m")
        size, _ = before["model.safetensors"]
        words = ["train", *SMALL, "--steps", "160", "--warmup", "9", "--save-model", "m", "--continue-from", "m"]
        for limit in (100, size // 2, size + 10):  # in the config, the model, the state of training
            message = self.refused(*words, said=["cannot write m", "file too large"],
                                   preexec_fn=lambda most=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
            self.assertNotIn("not finite", message)
            self.assertEqual(self.state_of("m"), before)
            self.assertEqual(self.names(), ["m"])

    def test_a_folder_has_one_writer(self):
        process = self.start("train", *SMALL, "--steps", "1000000", "--save-model", "m", "--save-every", "20")
        self.wait_until((self.folder / "m").exists, process)
        self.refused("train", *SMALL, "--steps", "2", "--save-model", "m", said=["cannot write m", "another run is writing it"])
        self.refused("train", *SMALL, "--steps", "2", "--save-model", "m/", said="another run is writing it")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=poslab_process.TIMEOUT)
        self.assertEqual(process.returncode, 0)
        document = json.loads(out)
        self.assertTrue(document["summary"]["interrupted"])
        self.assertGreaterEqual(document["summary"]["steps_done"], 20)

    def test_what_no_config_can_name_is_refused_before_training(self):
        # A second of training is some hundred steps: this many would not end.
        self.refused("train", *SMALL, "--rope-type", "ntk_by_parts", "--factor", "2", "--steps", 10 ** 9, "--save-model", "m",
                     said="ntk_by_parts")
        self.assertEqual(self.names(), [])

    def test_a_loss_that_is_no_number_names_its_step(self):
        self.poslab("train", *SMALL, "--steps", "2", "--save-model", "m", "--quiet")
        before = self.state_of("m")
        words = ["train", *SMALL, "--steps", "9", "--save-model", "m", "--init", "m", "--learning-rate", "1e30", "--warmup", "0"]
        for more in ([], ["--save-every", "1"]):
            self.refused(*words, *more, said=["not finite at step 2", "m is as it was"])
            self.assertEqual(self.state_of("m"), before)
            self.assertEqual(self.names(), ["m"])

    def test_damaged_files_are_named(self):
        self.poslab("train", *SMALL, "--steps", "2", "--save-model", "m", "--quiet")
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

                def words_of(steps):
                    return ["train", *SMALL, "--steps", steps, "--sweep", "seed=0:5:+1", "--jobs", jobs, "--quiet",
                            "--output", name]

                steps, out, err = self.stop_midway(words_of, lambda: self.lines(name + ".partial"), number, 2)
                self.assertEqual(out, b"")
                self.assertRegex(err.decode(), r"\Aposlab: [^\n]*interrupted[^\n]*--resume[^\n]*\n\Z")
                kept = self.lines(name + ".partial")
                self.assertTrue(0 < len(kept) < 6, len(kept))
                for line in kept:
                    self.assertEqual(json.loads(line)["summary"]["steps_done"], steps)
                words = words_of(steps)
                self.poslab(*words, "--resume")
                again = self.lines(name)
                self.assertEqual(again[:len(kept)], kept)
                self.assertEqual(strip_context("\n".join(again)), strip_context(self.poslab(*words[:-2]).rstrip("\n")))

    def test_a_sweep_hears_signals_between_its_points_too(self):
        points = 60
        process = self.start("train", *SMALL, "--steps", "5", "--sweep", f"seed=1:{points}:+1", "--jobs", "1", "--quiet",
                             "--output", "a.ndjson")
        self.wait_until(lambda: self.lines("a.ndjson.partial"), process)
        heard = []
        while True:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            if len(self.lines("a.ndjson.partial")) in (0, points):
                break
            heard.append(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> signal.SIGINT - 1 & 1)
        self.assertGreater(len(heard), 20)
        self.assertTrue(all(heard), f"{heard.count(0)} of {len(heard)} moments")
        self.assertEqual(process.communicate(timeout=poslab_process.TIMEOUT), (b"", b""))

    def test_an_interrupted_study_says_so(self):
        process = self.start("extrapolate", "--steps", "100000", "--save-study", "study")
        self.wait_until((self.folder / "study").exists, process)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=poslab_process.TIMEOUT)
        self.assertEqual((process.returncode, out), (2, b""))
        self.assertRegex(err.decode(), r"\Aposlab: [^\n]*interrupted[^\n]*study[^\n]*\n\Z")


class Studies(Runs):
    @staticmethod
    def study(steps, encodings="rope,learned", seeds="0,1"):
        return ["extrapolate", "--seq-len", "16", "--d-model", "16", "--n-layers", "1", "--steps", steps, "--eval-tokens",
                "128", "--multiples", "1,2", "--encodings", encodings, "--seeds", seeds, "--extend-types", "linear",
                "--extend-steps", "0,5", "--threads", "1"]

    def kept(self):
        folder = self.folder / "study"
        return {p.name: p.read_bytes() for p in folder.glob("*.json")} if folder.exists() else {}

    def test_a_killed_study_goes_on_by_encoding_and_seed(self):
        def saved(steps):
            return [*self.study(steps), "--save-study", "study"]

        steps, _, _ = self.stop_midway(saved, self.kept, signal.SIGKILL, -signal.SIGKILL)
        kept = self.kept()
        self.assertLess(len(kept), 4)
        again = self.document(*saved(steps))
        self.assertEqual({name: self.kept()[name] for name in kept}, kept)
        self.assertEqual(len(self.kept()), 4)
        again["params"]["save_study"] = None
        self.assertEqual(without_context(again), without_context(self.document(*self.study(steps))))
        # Its own bytes too, when everything is kept; other parameters find nothing of it.
        self.assertEqual(strip_context(self.poslab(*saved(steps))), strip_context(self.poslab(*saved(steps))))
        # They are read, not made again.
        name = next(iter(kept))
        text = re.sub(r'"numbers": \[[^,]+', '"numbers": [123', kept[name].decode())
        (self.folder / "study" / name).write_text(text)
        self.assertTrue(any(123 in row.values() for row in self.document(*saved(steps))["rows"]))
        self.poslab(*saved(2))
        self.assertEqual(len(self.kept()), 8)

    def test_a_killed_sweep_over_both_resumes_point_by_point(self):
        def sweep(steps):
            words = [w for w in self.study(steps, None, None) if w not in (None, "--encodings", "--seeds")]
            return [*words, "--sweep", "encodings=rope;learned", "--sweep", "seeds=0;1", "--output", "x.ndjson"]

        steps, _, _ = self.stop_midway(sweep, lambda: self.lines("x.ndjson.partial"), signal.SIGKILL, -signal.SIGKILL)
        kept = [line for line in self.lines("x.ndjson.partial") if line.endswith("}")]
        # What was begun when the kill came is half a line at most, and dropped.
        with open(self.folder / "x.ndjson.partial", "a") as partial:
            partial.write('{"schema": 1, "experiment": "extra')
        self.poslab(*sweep(steps), "--resume")
        self.assertEqual(self.lines("x.ndjson")[:len(kept)], kept)
        self.assertEqual(strip_context((self.folder / "x.ndjson").read_text()),
                         strip_context(self.poslab(*sweep(steps)[:-2])))
        self.assertEqual([(r["encoding"], r["seed"]) for line in self.lines("x.ndjson") for r in json.loads(line)["rows"]
                          if r["length"] == 16 and r.get("scaling") is None],
                         [(e, s) for e in ("rope", "learned") for s in (0, 1)])

    def test_damaged_results_are_named(self):
        words = ["extrapolate", "--steps", "2", "--seq-len", "8", "--encodings", "none", "--seeds", "4", "--save-study", "study"]
        self.poslab(*words)
        path, = (self.folder / "study").glob("none-seed4-*.json")
        good = path.read_text()
        for text in ("", "{}", good.replace('"steps": "2"', '"steps": "3"'), good.replace('"numbers": [', '"numbers": [1, '), good[:-9]):
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
            (["perplexity", "--eval-tokens", "1000000", "--seq-len", "64"], r"  \d+ " + left),
        ]
        for words, expected in cases:
            with self.subTest(words[0]):
                self.assert_bar(expected.encode(), *words)


if __name__ == "__main__":
    poslab_process.main()
