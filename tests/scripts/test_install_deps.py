#!/usr/bin/python3
"""scripts/install_deps.sh with stand-ins for dpkg-query, apt-get, sudo and id: what it would install, and how."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "install_deps.sh"
# Every package but cmake is there.
DPKG = '#!/bin/bash\nshift 3\nfor p; do [ "$p" = cmake ] || echo "installed $p"; done\n'
LOG = '#!/bin/bash\necho "$(basename "$0") $*" >> "$LOG"\n'


class InstallDeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for tool in ("bash", "env", "comm", "sort", "sed", "basename"):
            (self.folder / tool).symlink_to(shutil.which(tool))
        self.stand_in("dpkg-query", DPKG)
        self.stand_in("apt-get", LOG)

    def stand_in(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run_script(self, *tasks, uid):
        self.stand_in("id", f"#!/bin/bash\necho {uid}\n")
        log = self.folder / "log"
        log.write_text("")
        done = subprocess.run([str(SCRIPT), *tasks], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.folder), "LOG": str(log)})
        self.assertEqual(done.stdout, "")  # stdout belongs to what run.sh runs
        return done, log.read_text().splitlines()

    def test_nothing_missing_says_and_does_nothing(self):
        self.stand_in("dpkg-query", DPKG.replace("cmake", "none-such"))
        for uid in (0, 1000):
            done, log = self.run_script("build", "test", uid=uid)
            self.assertEqual((done.returncode, done.stderr, log), (0, "", []))

    def test_root_installs_what_is_missing_and_nothing_else(self):
        done, log = self.run_script("build", uid=0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(log), 2)
        self.assertTrue(log[0].endswith(" update"), log)
        self.assertTrue(log[1].endswith(" install -y --no-install-recommends cmake"), log)

    def test_an_ordinary_user_installs_with_sudo_and_is_told_what(self):
        self.stand_in("sudo", LOG + '"$@"\n')
        done, log = self.run_script("build", uid=1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo", done.stderr)
        self.assertIn("install cmake", done.stderr)
        self.assertEqual([line.split()[0] for line in log], ["sudo", "apt-get"] * 2)

    def test_without_sudo_the_error_names_the_packages(self):
        done, log = self.run_script("build", uid=1000)
        self.assertEqual((done.returncode, log), (2, []))
        self.assertRegex(done.stderr, r"\Ainstall_deps\.sh: [^\n]*'apt-get install cmake'\n\Z")

    def test_a_failing_update_does_not_stop_but_a_failing_install_does(self):
        self.stand_in("apt-get", LOG + '[[ "$*" != *update ]]\n')
        self.assertEqual(self.run_script("build", uid=0)[0].returncode, 0)
        self.stand_in("apt-get", LOG + '[[ "$*" == *update ]]\n')
        done, _ = self.run_script("build", uid=0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("could not install: cmake", done.stderr)

    def test_without_dpkg_and_with_an_unknown_task(self):
        done, _ = self.run_script("bild", uid=0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'bild'", done.stderr)
        (self.folder / "dpkg-query").unlink()
        done, _ = self.run_script("build", uid=0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("libfmt-dev", done.stderr)


if __name__ == "__main__":
    unittest.main()
