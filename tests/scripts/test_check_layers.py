#!/usr/bin/python3
"""scripts/check_layers.py on small trees: each way to break the include rule is seen, and a clean tree passes."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"
MAP = """| room | what it holds | may include |
| --- | --- | --- |
| `apps/main.cpp` | words | cli, core |
| `apps/cli/` | words | experiments, report, encodings, core |
| `apps/experiments/` | words | report, encodings, core |
| `lib/poslab/encodings/` | words | kernels, core |
| `lib/poslab/report/` | words | core |
| `lib/poslab/kernels/` | words | core |
| `lib/poslab/core/` | words | |
"""
CLEAN = {
    "lib/poslab/core/a.h": "#include <vector>\n",
    "lib/poslab/kernels/k.cpp": '#include <span>\n#include "poslab/core/a.h"\n',
    "lib/poslab/kernels/k.kernel.cpp": "#include <span>\n",
    "lib/poslab/encodings/e.h": '#include "poslab/core/a.h"\n',
    "lib/poslab/report/r.cpp": '#include <nlohmann/json.hpp>\n#include "poslab/core/a.h"\n',
    "apps/experiments/experiment.h": '#include "poslab/core/a.h"\n',
    "apps/experiments/shared.h": "",
    "apps/experiments/one.cpp": '#include "experiments/experiment.h"\n#include "experiments/shared.h"\n'
                                '#include "poslab/encodings/e.h"\nconst Registrar registrar("one", describe_one);\n',
    "apps/cli/run.h": '#include <CLI/CLI.hpp>\n#include "experiments/experiment.h"\n',
    "apps/main.cpp": '#include "cli/run.h"\n',
}


class Layers(unittest.TestCase):
    def check(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ({"ARCHITECTURE.md": MAP} | CLEAN | changes).items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([str(SCRIPT), folder], capture_output=True, text=True)

    def test_a_clean_tree_passes(self):
        done = self.check({})
        self.assertEqual((done.returncode, done.stdout), (0, f"{len(CLEAN)} files keep the include rule\n"))

    def test_every_breach_is_named_with_its_place(self):
        two = 'const Registrar registrar("two", describe_two);\n'
        breaches = [
            ({"lib/poslab/core/a.h": '#include "poslab/encodings/e.h"\n'}, "a.h:1: core may not include encodings"),
            ({"lib/poslab/kernels/k.kernel.cpp": '\n#include "poslab/core/a.h"\n'}, "cpp:2: kernels may not include core"),
            ({"lib/poslab/kernels/k.cpp": '#include "poslab/report/r.h"\n', "lib/poslab/report/r.h": ""},
             "kernels may not include report"),
            ({"lib/poslab/encodings/e.h": '#include "poslab/report/x.h"\n', "lib/poslab/report/x.h": ""},
             "encodings may not include report"),
            ({"lib/poslab/core/a.h": "#  include <CLI/App.hpp>\n"}, "core may not include <CLI/App.hpp>"),
            ({"lib/poslab/core/a.h": "#include <nlohmann/json_fwd.hpp>\n"}, "kept to cli, experiments, formats"),
            ({"apps/experiments/one.cpp": "#include <CLI/CLI.hpp>\n"}, "experiments may not include <CLI/CLI.hpp>"),
            ({"apps/experiments/two.h": "", "apps/experiments/two.cpp": two,
              "apps/experiments/one.cpp": '#include "experiments/two.h"\n'}, "concrete experiment"),
            ({"apps/experiments/two.h": "", "apps/experiments/two.cpp": two,
              "apps/cli/run.h": '#include "experiments/two.h"\n'}, "cli/run.h:1: nobody may include a concrete"),
            ({"apps/experiments/one.cpp": '#include "cli/run.h"\n'}, "experiments may not include cli"),
            ({"apps/main.cpp": '#include "experiments/experiment.h"\n'}, "main may not include experiments"),
            ({"apps/cli/run.h": '#include "../main.h"\n'}, "is not named from lib/ or apps/"),
            ({"lib/poslab/odd/a.h": ""}, "'odd' is no layer"),
            ({"apps/experiments/one.cpp": 'void f() { std::printf("x"); }\n'}, "experiments may not print"),
            ({"lib/poslab/core/a.h": "inline void f() { std::cerr << 1; }\n"}, "core may not print (std::cerr)"),
        ]
        for changes, said in breaches:
            with self.subTest(said):
                done = self.check(changes)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(said, done.stdout)
                self.assertEqual(done.stdout.count("\n"), 1, done.stdout)

    def test_a_map_without_a_room_is_an_error(self):
        for text in ("", MAP.replace("`lib/poslab/core/`", "core")):
            done = self.check({"ARCHITECTURE.md": text})
            self.assertEqual(done.returncode, 1)
            self.assertIn("the map of ARCHITECTURE.md has no row for", done.stderr)

    def test_an_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([str(SCRIPT), folder], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
