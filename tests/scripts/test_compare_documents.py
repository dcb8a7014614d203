#!/usr/bin/python3
"""tests/compare_documents.py sees each kind of planted change, allows what is declared, and asks every experiment."""

import contextlib
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
SCRIPT = TESTS / "compare_documents.py"
spec = importlib.util.spec_from_file_location("compare_documents", SCRIPT)
compared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compared)

DOCUMENT = ('{"experiment": "rotate", "params": {"angle": 1.5}, "summary": {"norm": 2}, "rows": [{"pair": 0, "x": 0.25}], '
            '"context": {"threads": 2}}')
FAKE = """#!/bin/sh
case "$*" in
  train*roped*) mkdir roped; echo x >roped/config.json; echo x >roped/model.safetensors ;;
  train*sloped*) mkdir sloped; echo x >sloped/config.json; echo x >sloped/model.safetensors ;;
esac
echo '{"summary": {"a": ANSWER}, "context": {"pid": '$$'}}'
"""


class Compare(unittest.TestCase):
    def lines(self, new=DOCUMENT, old=DOCUMENT, command="rotate --angle 1.5", old_rest=(0, "", {}), new_rest=(0, "", {})):
        case = compared.Case(command)
        old_status, old_error, old_files = old_rest
        new_status, new_error, new_files = new_rest
        return list(compared.compare(case, (old_status, old, old_error, old_files),
                                     (new_status, new, new_error, new_files)))

    @contextlib.contextmanager
    def declared(self, **tables):
        before = {name: getattr(compared, name) for name in tables}
        for name, value in tables.items():
            setattr(compared, name, value)
        yield
        for name, value in before.items():
            setattr(compared, name, value)

    def test_the_same_document_in_another_context_passes(self):
        self.assertEqual(self.lines(DOCUMENT.replace('"threads": 2', '"threads": 7')), [])

    def test_each_planted_change_is_seen(self):
        for old, new, said in (("0.25", "0.2500000000000001", "rows.0.x is '0.2500000000000001' instead of '0.25'"),
                               ("0.25", "0.250", "rows.0.x is"),
                               ('"norm"', '"length"', "summary.length is new"),
                               ('"pair": 0, "x": 0.25', '"x": 0.25, "pair": 0', "another order"),
                               ('"x": 0.25}', '"x": 0.25}, {}', "rows has 2 entries instead of 1"),
                               ('{"angle": 1.5}', '{"angle": 1.5, "more": 1}', "params.more is new"),
                               (DOCUMENT, "no document", "stdout is no json")):
            lines = self.lines(DOCUMENT.replace(old, new))
            self.assertTrue(lines and said in lines[0], (new, lines))

    def test_status_message_and_files_count(self):
        self.assertIn("ends with 2 instead of 0", self.lines(new_rest=(2, "poslab: no", {}))[0])
        self.assertIn("says", self.lines(new_rest=(0, "poslab: note", {}))[0])
        self.assertEqual(self.lines(old_rest=(0, "", {"a": b"1"}), new_rest=(0, "", {"a": b"2"})), ["writes another a"])
        self.assertEqual(self.lines(old_rest=(0, "", {"a": None}), new_rest=(0, "", {"a": None})),
                         ["the old one wrote no a"])
        self.assertIn("the old one ends with 2 instead of 0", self.lines(old_rest=(2, "", {}), new_rest=(2, "", {}))[0])

    def test_csv_and_text(self):
        table = "angle,x\n1.5,0.25\n"
        command = "rotate --format csv"
        self.assertEqual(self.lines(table, table, command), [])
        self.assertEqual(self.lines(table.replace("0.25", "0.26"), table, command), ["0.x is '0.26' instead of '0.25'"])
        command = "rotate --format text"
        self.assertEqual(self.lines("The angle is 1.5.", "An angle of 1.5", command), [])
        self.assertEqual(self.lines("The angle is 1.6.", "An angle of 1.5", command), ["0 is '1.6' instead of '1.5'"])

    def test_what_is_declared_passes_and_nothing_beside_it(self):
        with self.declared(RENAMED={"rotate": {"angle": "rotation"}}):
            self.assertEqual(self.lines(DOCUMENT.replace("angle", "rotation"),
                                        new_rest=(0, "poslab: --angle is --rotation now\n", {})), [])
            self.assertTrue(self.lines())
        more = DOCUMENT.replace('{"angle": 1.5}', '{"angle": 1.5, "more": 1}')
        with self.declared(ADDED={"rotate": {"params": {"more"}}}):
            self.assertEqual(self.lines(more), [])
            self.assertTrue(self.lines(DOCUMENT.replace('"x"', '"more": 1, "x"')))
            self.assertEqual(self.lines(more.replace("}}", '}, "fields": {"more": "radians"}}'),
                                        DOCUMENT.replace("}}", '}, "fields": {}}')), [])
        with self.declared(ROUNDED=[("^rotate", r"\.x$", 1e-12, "")]):
            self.assertEqual(self.lines(DOCUMENT.replace("0.25", "0.2500000000000001")), [])
            self.assertTrue(self.lines(DOCUMENT.replace("0.25", "0.2501")))
            self.assertTrue(self.lines(DOCUMENT.replace("1.5", "1.5000000000000002")))
        with self.declared(REWORDED=[("^rotate", "")]):
            self.assertEqual(self.lines(old_rest=(2, "a", {}), new_rest=(2, "b", {}), command="[2] rotate"), [])
        with self.declared(CHANGED=[("^rotate", "^status$", "")]):
            self.assertEqual(self.lines(new_rest=(2, "", {})), [])

    def test_two_binaries(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, answer in (("one", "1"), ("same", "1"), ("other", "2")):
                path = pathlib.Path(folder, name)
                path.write_text(FAKE.replace("ANSWER", answer))
                path.chmod(0o755)

            def ask(new):
                return subprocess.run([sys.executable, "-B", SCRIPT, f"{folder}/one", f"{folder}/{new}", "--only", "^bound$"],
                                      capture_output=True, text=True)

            self.assertEqual((ask("same").returncode, ask("same").stdout), (0, ""))
            self.assertEqual(ask("other").returncode, 1)
            self.assertIn("bound: summary.a is '2' instead of '1'\n", ask("other").stdout)

    def test_every_experiment_is_asked(self):
        registered = {name for path in (TESTS.parent / "apps" / "experiments").glob("*.cpp")
                      for name in re.findall(r'^const Registrar \w+\("([\w-]+)"', path.read_text(), re.MULTILINE)}
        _, cases = compared.cases()
        self.assertGreater(len(registered), 15)
        self.assertGreaterEqual(len({case.command for case in cases}), 60)
        for name in registered - compared.NEW_EXPERIMENTS:
            self.assertTrue(any(case.experiment == name and case.status == 0 for case in cases), name)


if __name__ == "__main__":
    unittest.main()
