#!/usr/bin/python3
"""Exit status, streams, colour, output files, closed pipes and full disks."""

import json
import os
import pty
import stat
import struct
import subprocess
import threading

import poslab_process
from poslab_process import ProcessTest, environment, without_context

ESCAPE = "\x1b["


class Commands(ProcessTest):
    def test_help_and_version_go_to_stdout(self):
        for words in (["--help"], ["--version"], ["list"], ["rope-score", "--help"], ["generate", "man"]):
            self.assertGreater(len(self.poslab(*words)), 20, words)
        for word in ("compiler", "BLAS"):
            self.assertIn(word.lower(), self.poslab("--version").lower())

    def test_unknown_names_suggest_the_nearest(self):
        self.refused("rope-scor", said=["rope-scor", "'rope-score'"])
        self.refused("tabel", said="'table'")
        self.refused("rope-score", "--rope-thta", "3", said="'--rope-theta'")
        self.refused("rope-score", "--rope_theta", "3", said="'--rope-theta'")
        self.refused("table", "--fromat", "json", said="'--format'")
        self.refused("table", "--format", "jsn", said=["jsn", "'json'"])
        self.refused("rotate", "--layout", "interlaced", said=["interlaced", "'interleaved'"])
        self.refused("generate", "complete-bsh", said="'complete-bash'")
        self.refused("list", "scaling", said="'scalings'")

    def test_an_error_beside_help_is_still_an_error(self):
        self.refused("table", "--bogus", "--help", said="--bogus")
        self.refused("tabel", "--help", said="'table'")

    def test_help_shows_flags_and_an_example(self):
        text = self.poslab("rope-score", "--help")
        for part in ("--rope-theta", "per-pair", "--format", "--sweep", "poslab rope-score"):
            self.assertIn(part, text)

    def test_expect_sets_exit_status_1_and_still_writes(self):
        self.poslab("shuffle-test", "--expect", "equivariant")
        text = self.poslab("shuffle-test", "--expect", "order-aware", status=1)
        self.assertTrue(json.loads(text)["summary"]["equivariant"])
        self.refused("shuffle-test", "--expect", "equivarant", said="'equivariant'")
        self.refused("rotate", "--expect", "equivariant", said="--expect")

    def test_tour_as_json_is_one_document_per_line(self):
        documents = [json.loads(line) for line in self.poslab("tour", "--format", "json").splitlines()]
        self.assertGreaterEqual(len(documents), 5)
        self.assertTrue({"shuffle-test", "embed", "table", "rotate", "rope-score"} <=
                        {d["experiment"] for d in documents})

    def test_tour_as_text_is_for_a_reader(self):
        text = self.poslab("tour")
        for part in ("-5.228169612714955"[:7], "2.236", "6. Past the trained length", "poslab tour --study"):
            self.assertIn(part, text)
        self.assertNotIn("nats/token", text)  # the study trains for minutes: only where it is asked for


class Formats(ProcessTest):
    def on_terminal(self, *words, **env):
        """What a person would see: stdout is a terminal."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal can be opened here: {error}")
        process = subprocess.Popen([poslab_process.binary, *words], stdin=subprocess.DEVNULL, stdout=follower,
                                   stderr=subprocess.PIPE, cwd=self.folder, env=environment(**env))
        os.close(follower)
        chunks = []
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        os.close(leader)
        self.assertEqual((process.wait(), process.stderr.read()), (0, b""))
        process.stderr.close()
        return b"".join(chunks).decode()

    def test_auto_is_text_on_a_terminal_and_json_elsewhere(self):
        self.assertNotIn('"schema"', self.on_terminal("rotate", TERM="xterm"))
        self.assertEqual(json.loads(self.poslab("rotate"))["experiment"], "rotate")
        self.assertEqual(len(self.poslab("rotate", "--sweep", "position=1,2,3").splitlines()), 3)

    def test_auto_follows_the_ending_of_output(self):
        for name, begins in (("a.json", '{\n'), ("a.ndjson", '{"schema"'), ("a.csv", "query_position,"), ("a", "{\n")):
            self.assertEqual(self.poslab("rope-score", "--output", name), "")
            self.assertTrue((self.folder / name).read_text().startswith(begins), name)
        self.poslab("rope-score", "--output", "a.txt")
        self.assertNotIn('"schema"', (self.folder / "a.txt").read_text())

    def test_colour_only_where_it_is_on(self):
        self.assertIn(ESCAPE, self.on_terminal("table", TERM="xterm"))
        self.assertNotIn(ESCAPE, self.on_terminal("table", TERM="xterm", NO_COLOR="1"))
        self.assertIn(ESCAPE, self.on_terminal("table", TERM="xterm", NO_COLOR=""))
        self.assertNotIn(ESCAPE, self.on_terminal("table", TERM="dumb"))
        self.assertNotIn(ESCAPE, self.on_terminal("table", "--color", "never", TERM="xterm"))
        self.assertNotIn(ESCAPE, self.poslab("table", "--format", "text"))
        self.assertIn(ESCAPE, self.poslab("table", "--format", "text", "--color", "always"))
        self.assertNotIn(ESCAPE, self.poslab("table", "--format", "json", "--color", "always"))

    def test_documents_are_whole(self):
        document = self.document("rope-score")
        self.assertEqual([k for k in document if k != "fields"],
                         ["schema", "experiment", "params", "summary", "rows", "context"])
        self.assertEqual(document["schema"], 1)
        self.assertEqual(document["params"]["head_dim"], None)  # not derived: the summary tells what was resolved
        for key in ("version", "revision", "compiler", "isa", "blas", "threads", "started", "elapsed_s"):
            self.assertIn(key, document["context"])

    def test_numbers_are_written_shortest(self):
        rows = json.loads(self.poslab("rotate", "--vector", "100000,1e16,-0.0,0.1", "--position", "0"),
                          parse_float=str, parse_int=str)
        self.assertEqual(rows["summary"]["output"], ["100000", "1e+16", "-0.0", "0.1"])

    def test_save_npy_holds_the_rows(self):
        document = self.document("table", "--seq-len", "5", "--d-model", "4", "--save-npy", "t.npy")
        data = (self.folder / "t.npy").read_bytes()
        self.assertEqual(data[:6], b"\x93NUMPY")
        length = struct.unpack("<H", data[8:10])[0]
        header = data[10:10 + length].decode()
        self.assertEqual((10 + length) % 64, 0)
        self.assertIn("'descr': '<f8'", header)
        self.assertIn("'fortran_order': False", header)
        self.assertIn("(5, 4)", header)
        self.assertEqual(list(struct.unpack("<20d", data[10 + length:])),
                         [v for row in document["rows"] for v in row["values"]])


class Outputs(ProcessTest):
    def test_a_closed_pipe_ends_quietly(self):
        for words in (["table"], ["table", "--format", "csv", "--seq-len", "50000"], ["list"], ["--help"], ["tour"],
                      ["rotate", "--sweep", "position=0:20000:+1"], ["generate", "man"]):
            with self.subTest(words):
                read_end, write_end = os.pipe()
                os.close(read_end)
                done = self.run_poslab(*words, stdout=write_end)
                os.close(write_end)
                self.assertEqual(done.stderr, b"")
                self.assertIn(done.returncode, (0, -13))

    def test_head_of_a_long_table(self):
        done = subprocess.run(["bash", "-c", '"$1" table --format csv --seq-len 50000 | head -n 1', "x",
                               poslab_process.binary], capture_output=True, cwd=self.folder, env=environment())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"position,values_0,"))

    def test_a_full_disk_is_told(self):
        for words in (["table"], ["rotate"], ["list"], ["--help"], ["--version"], ["rotate", "--help"], ["tour"],
                      ["generate", "man"], ["rotate", "--sweep", "position=1,2"], ["rotate", "--format", "csv"]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                self.refused(*words, stdout=full, said="No space left on device")
        self.refused("rotate", "--output", "/dev/full", said=["/dev/full", "No space left on device"])
        self.refused("table", "--save-npy", "/dev/full", said="No space left on device")

    def test_an_output_that_cannot_be_written_is_told_before_computing(self):
        # So much work that the test would run into its time limit if it were begun.
        long = ["shuffle-test", "--seq-len", "2000000", "--d-model", "512"]
        self.refused(*long, "--output", "absent/x.json", said=["absent/x.json", "No such file or directory"])
        self.refused(*long, "--output", ".", said="Is a directory")
        self.refused(*long, "--save-npy", "absent/x.npy", said="No such file or directory")
        self.refused(*long, "--sweep", "seed=1,2", "--output", "absent/x.ndjson", said="No such file or directory")
        self.refused(*long, "--output", "")
        self.file("plain", "")
        self.refused(*long, "--output", "plain/x.json", said="Not a directory")
        self.assertEqual(self.names(), ["plain"])

    def test_a_file_appears_whole_or_not_at_all(self):
        self.file("x.json", "old")
        self.refused("rotate", "--rotary-dim", "3", "--output", "x.json", said="rotary_dim")
        self.assertEqual((self.names(), (self.folder / "x.json").read_text()), (["x.json"], "old"))
        self.poslab("rotate", "--output", "x.json")
        self.assertEqual(self.names(), ["x.json"])
        self.assertEqual(json.loads((self.folder / "x.json").read_text())["experiment"], "rotate")

    def test_a_symlink_stays_and_its_target_is_replaced(self):
        target = self.file("target.json", "old")
        target.chmod(0o640)
        link = self.folder / "link.json"
        link.symlink_to("target.json")
        self.poslab("rotate", "--output", "link.json")
        self.assertTrue(link.is_symlink())
        self.assertEqual(json.loads(target.read_text())["experiment"], "rotate")
        self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o640)
        self.assertEqual(self.names(), ["link.json", "target.json"])

    def test_what_is_no_regular_file_is_written_directly(self):
        self.assertEqual(json.loads(self.poslab("rotate", "--output", "/dev/stdout"))["experiment"], "rotate")
        self.assertEqual(self.poslab("rotate", "--output", "/dev/null"), "")
        with open(self.folder / "log", "ab") as log:  # what stood there before stays
            log.write(b"before\n")
            log.flush()
            self.poslab("rotate", "--output", "/dev/stdout", "--format", "ndjson", stdout=log)
        before, line = (self.folder / "log").read_text().splitlines()
        self.assertEqual((before, json.loads(line)["experiment"], self.names()), ("before", "rotate", ["log"]))
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        read = []
        reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
        reader.start()
        self.poslab("rotate", "--output", "fifo", "--format", "json")
        reader.join()
        self.assertEqual(json.loads(read[0])["experiment"], "rotate")
        self.assertTrue(stat.S_ISFIFO(fifo.stat().st_mode))

    def test_quiet_stderr_where_it_is_no_terminal(self):
        self.poslab("shuffle-test", "--seq-len", "256")

    def test_the_file_holds_what_stdout_would(self):
        self.poslab("rope-score", "--output", "x.json")
        self.assertEqual(without_context(json.loads((self.folder / "x.json").read_text())),
                         without_context(self.document("rope-score")))


if __name__ == "__main__":
    poslab_process.main()
