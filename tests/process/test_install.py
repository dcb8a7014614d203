#!/usr/bin/python3
"""`cmake --install`: the binary, man page and completions, and a binary that needs nothing of the source tree."""

import os
import subprocess

import poslab_process
from poslab_process import ProcessTest, environment


class Install(ProcessTest):
    def test_install(self):
        build = os.path.dirname(poslab_process.binary)
        done = subprocess.run(["cmake", "--install", build, "--prefix", self.folder / "usr"], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        installed = {str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()}
        self.assertEqual(installed, {"usr/bin/poslab", "usr/share/man/man1/poslab.1",
                                     "usr/share/bash-completion/completions/poslab",
                                     "usr/share/zsh/site-functions/_poslab",
                                     "usr/share/fish/vendor_completions.d/poslab.fish"})
        self.assertTrue((self.folder / "usr/share/man/man1/poslab.1").read_text().startswith(".TH"))
        for words in (["tour"], ["inspect", "llama-3.1-8b"]):
            done = subprocess.run([self.folder / "usr/bin/poslab", *words], capture_output=True, cwd="/",
                                  env=environment())
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
            self.assertGreater(len(done.stdout), 500)


if __name__ == "__main__":
    poslab_process.main()
