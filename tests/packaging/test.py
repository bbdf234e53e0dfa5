#!/usr/bin/env python3
"""Checks packaging/ without Docker or a release: the Dockerfiles' instructions are executed in a folder instead of a root,
on a tarball of this build; and files that scripts, Dockerfiles and workflows name exist.

  tests/packaging/test.py --program PROGRAM

Needs only Python's standard library."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))
sys.dont_write_bytecode = True
import artifacts  # noqa: E402


def instructions(path):
    """Returns (instruction, arguments) of a Dockerfile."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", path.read_text(), flags=re.M))
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class PackagingTest(unittest.TestCase):
    program = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def build(self, dockerfile, context, root):
        """Executes the instructions below `root`; returns the entry point's words and the environment."""
        stubs = self.folder / "stubs"
        stubs.mkdir(exist_ok=True)
        for name in ("useradd", "apt-get"):  # these programs change the system, so stubs only record their calls
            (stubs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{self.folder}/called\n')
            (stubs / name).chmod(0o755)
        env = {"PATH": f"{stubs}:{os.environ['PATH']}"}
        entry = []
        for instruction, arguments in instructions(dockerfile):
            if instruction in ("ADD", "COPY"):
                *sources, target = [a for a in arguments.split() if not a.startswith("--")]
                self.assertTrue(target.startswith("/"), arguments)
                for source in sources:
                    found = sorted(context.glob(source))
                    self.assertTrue(found, f"{dockerfile.name}: no file of a release is named {source}")
                    for path in found:
                        self.place(path, root / target.lstrip("/"), unpack=instruction == "ADD")
            elif instruction == "RUN":
                script = re.sub(r"(?<![\w./-])/(opt|usr/local)\b", lambda m: f"{root}/{m.group(1)}", arguments)
                done = subprocess.run(["sh", "-ec", script], env=env, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
            elif instruction == "ENTRYPOINT":
                entry = json.loads(arguments)
            else:
                self.assertIn(instruction, ("FROM", "USER", "WORKDIR", "ENV", "LABEL", "ARG"))
        return entry

    @staticmethod
    def place(source, target, unpack):
        target.mkdir(parents=True, exist_ok=True)
        if unpack and source.name.endswith(".tar.gz"):
            with tarfile.open(source) as archive:
                archive.extractall(target)
        else:
            shutil.copy(source, target)

    def test_dockerfiles(self):
        stage, context, root = self.folder / "stage", self.folder / "dist", self.folder / "root"
        (stage / "bin").mkdir(parents=True)
        context.mkdir()
        (root / "usr/local/bin").mkdir(parents=True)
        shutil.copy(self.program, stage / "bin/onnx-amp-finetune")
        top = artifacts.top_folder("x86_64")
        artifacts.write_tarball(stage, context / f"{top}.tar.gz", top, compression=1)
        dockerfiles = sorted((ROOT / "packaging").glob("Dockerfile*"))
        self.assertTrue(dockerfiles)
        for dockerfile in dockerfiles:
            with self.subTest(dockerfile.name):
                entry = self.build(dockerfile, context, root)
                self.assertEqual(len(entry), 1)
                done = subprocess.run([root / "usr/local/bin" / entry[0], "version"], capture_output=True, text=True)
                self.assertEqual(done.stdout.split()[:2], ["onnx-amp-finetune", artifacts.version()])
                users = [a for i, a in instructions(dockerfile) if i == "USER"]
                for user in users:
                    self.assertIn(f" {user}\n", (self.folder / "called").read_text())

    def test_files_that_are_named_exist(self):
        scripts = [p for p in (ROOT / "packaging").iterdir() if p.is_file()]
        scripts += [*(ROOT / ".github/workflows").iterdir(), ROOT / "action.yml", ROOT / "docs/ci.md", ROOT / "docs/install.md"]
        named = re.compile(r"(?<![\w./<$}*-])(?:\./)?((?:packaging|cmake|models|python|tests|docs|\.ci)/[\w./-]*\w)")
        seen = 0
        for script in scripts:
            for path in named.findall(script.read_text()):
                seen += 1
                self.assertTrue((ROOT / path).exists(), f"{script.relative_to(ROOT)} names {path}, which does not exist")
        self.assertGreater(seen, 20)

    def test_the_tarball_keeps_what_installs(self):
        stage = self.folder / "stage"
        (stage / "lib").mkdir(parents=True)
        (stage / "bin").mkdir()
        (stage / "lib/libx.so.1.0").write_text("x")
        (stage / "lib/libx.so.1").symlink_to("libx.so.1.0")
        (stage / "bin/tool").write_text("#!/bin/sh\n")
        (stage / "bin/tool").chmod(0o700)
        for name in ("a", "b"):
            (self.folder / name).mkdir()
            artifacts.write_tarball(stage, self.folder / name / "top.tar.gz", "top")
        self.assertEqual((self.folder / "a/top.tar.gz").read_bytes(), (self.folder / "b/top.tar.gz").read_bytes())
        with tarfile.open(self.folder / "a/top.tar.gz") as archive:
            members = {m.name: m for m in archive}
        self.assertEqual(sorted(members), ["top/bin/tool", "top/lib/libx.so.1", "top/lib/libx.so.1.0"])
        self.assertEqual(members["top/bin/tool"].mode, 0o755)
        self.assertEqual(members["top/lib/libx.so.1"].linkname, "libx.so.1.0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    flags, rest = parser.parse_known_args()
    PackagingTest.program = os.path.abspath(flags.program)
    unittest.main(argv=[sys.argv[0], *rest])
