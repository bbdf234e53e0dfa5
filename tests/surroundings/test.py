#!/usr/bin/env python3
"""Runs the program on unusual machines: no environment, no home, only the output folder writable, no /proc, another
user, closed or full outputs, an unwritable or tiny TMPDIR. A run must write the same bytes as an ordinary run, or end
with a documented error.

  tests/surroundings/test.py --program PROGRAM

Cases that need rights which the caller lacks are skipped, and their names are printed. Needs only Python's standard library."""
import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/data/zoo/lenet_relu_dyn18/model.onnx"
TRAIN = ["--train", "data.safetensors", "--val", "data.safetensors", "--loss", "cross_entropy", "--max_steps", "4", "--lr", "0.01",
         "--device", "cpu", "--output_dir", "out/run"]  # fmt: skip
NOBODY = 65534  # Debian gives this id to the user `nobody`
STORAGE = 7
CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 1, 32, 4096, 16384, 1 << 18
SKIPPED = 77  # exit status of a child that may not mount


def write_data(path):
    """Writes rows of LeNet's input, and labels, as safetensors."""
    rows, pixels = 12, 28 * 28
    images = b"".join(int((i * 7919) % 251).to_bytes(1, "little") for i in range(rows * pixels * 4))
    images = b"".join(bytes([images[i], images[i + 1], images[i + 2] & 0x7f, 0x3e]) for i in range(0, len(images), 4))
    labels = b"".join((i % 10).to_bytes(8, "little") for i in range(rows))
    header = json.dumps({"input": {"dtype": "F32", "shape": [rows, 1, 28, 28], "data_offsets": [0, len(images)]},
                         "label": {"dtype": "I64", "shape": [rows], "data_offsets": [len(images), len(images) + len(labels)]}})
    header += " " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + images + labels)


def mount(source, target, flags, kind=None, data=None):
    libc = ctypes.CDLL(None, use_errno=True)
    encoded = [None if s is None else str(s).encode() for s in (source, target, kind)]
    if libc.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode()):
        os._exit(SKIPPED)


def own_mounts():
    """Gives this process a separate mount namespace; must run between fork and exec."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS):
        os._exit(SKIPPED)
    mount(None, "/", MS_REC | MS_PRIVATE)


class SurroundingsTest(unittest.TestCase):
    program = ""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp())
        cls.shared.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.materials = cls.shared / "materials"
        cls.materials.mkdir()
        write_data(cls.materials / "data.safetensors")
        # The files are copied, because another user may not have permission to read this checkout.
        shutil.copy(MODEL, cls.materials / "model.onnx")
        shutil.copy(ROOT / "tests/data/zoo/bert_cls_eager_ts14/model.onnx", cls.materials / "bert.onnx")
        (cls.materials / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ngood\nday\n")
        cls.binary = cls.shared / "onnx-amp-finetune"
        shutil.copy(cls.program, cls.binary)
        done = subprocess.run([cls.binary, "model.onnx", *TRAIN], cwd=cls.fresh(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.wanted = (cls.folder / "out/run/model.onnx").read_bytes()

    @classmethod
    def fresh(cls):
        """Returns a folder with the materials and an empty folder `out`."""
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=cls.shared))
        shutil.copytree(cls.materials, cls.folder, dirs_exist_ok=True)
        (cls.folder / "out").mkdir()
        for path in (cls.folder, cls.folder / "out"):
            path.chmod(0o777)
        return cls.folder

    def run_program(self, *words, **more):
        done = subprocess.run([self.binary, *words], cwd=self.folder, capture_output=True, text=True, timeout=300, **more)
        if done.returncode == SKIPPED:
            self.skipTest("no right to mount")
        return done

    def trains(self, **more):
        """Checks that the run ends with the wanted bytes, and that eval and predict work."""
        self.fresh()
        done = self.run_program("model.onnx", *TRAIN, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "out/run/model.onnx").read_bytes(), self.wanted)
        done = self.run_program("eval", "out/run", "--val", "data.safetensors", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["loss"], 0)
        done = self.run_program("predict", "out/run", "--inputs", "data.safetensors", "--out", "out/predicted.npz", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["bert.onnx", "data.safetensors", "model.onnx", "out", "vocab.txt"])

    def other_user(self):
        if os.getuid():
            self.skipTest("this is no root, which the other cases use")
        return dict(user=NOBODY, group=NOBODY, extra_groups=[])

    def test_no_environment(self):
        self.trains(env={})

    def test_homes(self):
        for home in ("/nonexistent", "", "/dev/null", "relative"):
            with self.subTest(home):
                self.trains(env={**os.environ, "HOME": home})

    def test_languages(self):
        for language in ("C", "POSIX", "tr_TR.UTF-8", "de_DE.UTF-8", "none", ""):
            with self.subTest(language):
                self.trains(env={"LANG": language, "LC_ALL": language})

    def test_other_user(self):
        self.trains(env={}, **self.other_user())

    def test_read_only_root(self):
        def prepare():
            own_mounts()
            mount("out", "out", MS_BIND)
            for path in {"/", self.mounted_on(self.shared)}:
                mount(None, path, MS_REMOUNT | MS_BIND | MS_RDONLY)
            try:
                pathlib.Path(self.folder, "x").write_text("")
            except OSError:
                return
            os._exit(3)
        self.trains(env={}, preexec_fn=prepare)

    @staticmethod
    def mounted_on(path):
        while not os.path.ismount(path):
            path = path.parent
        return str(path)

    def test_no_proc_and_sys(self):
        def prepare():
            own_mounts()
            for path in ("/proc", "/sys"):
                mount("none", path, 0, "tmpfs")
        self.trains(env={}, preexec_fn=prepare)

    def test_small_tmp(self):
        def prepare():
            own_mounts()
            for path in ("/var/tmp", "/dev/shm"):
                mount("none", path, 0, "tmpfs", "size=4k")
        self.trains(env={}, preexec_fn=prepare)

    def test_temporary_folders(self):
        self.fresh()
        folder = self.folder / "closed"
        folder.mkdir(mode=0o555)
        for name in ("/nonexistent", "/dev/null", str(folder), ""):
            with self.subTest(name):
                self.trains(env={"TMPDIR": name}, **({"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}))

    def texts(self):
        """Returns the command line of a run on texts that are not kept in memory."""
        (self.folder / "texts.csv").write_text("text,label\n" + "".join(f"a good day number {i},{i % 2}\n" for i in range(30000)))
        return ["bert.onnx", "--train", "texts.csv", "--text_columns", "text", "--label_column", "label", "--vocab", "vocab.txt",
                "--num_labels", "2", "--in_memory_max_size", "1000", "--output_dir", "out/run", "--max_steps", "1"]  # fmt: skip

    def test_data_that_need_a_temporary_file(self):
        def tiny():
            own_mounts()
            mount("none", self.folder / "tiny", 0, "tmpfs", "size=4k")
        self.fresh()
        words = self.texts()
        (self.folder / "tiny").mkdir()
        for name, more, reason in (("/nonexistent", {}, "No such file"), ("/dev/null", {}, "Not a directory"),
                                   (str(self.folder / "tiny"), {"preexec_fn": tiny}, "No space left")):
            with self.subTest(reason):
                shutil.rmtree(self.folder / "out/run", ignore_errors=True)
                done = self.run_program(*words, env={"TMPDIR": name}, **more)
                error = json.loads(done.stderr.splitlines()[-1])
                self.assertEqual((done.returncode, error["id"]), (STORAGE, "E_SPILL"), done.stderr)
                self.assertIn(reason, error["error"])
                self.assertIn("TMPDIR", error["hint"])
        shutil.rmtree(self.folder / "out/run", ignore_errors=True)
        done = self.run_program(*words, env={"TMPDIR": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_closed_descriptors(self):
        for numbers in ([0], [1], [2], [0, 1, 2]):
            with self.subTest(numbers):
                self.fresh()
                done = subprocess.run([self.binary, "model.onnx", *TRAIN, "--quiet"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                      preexec_fn=lambda n=numbers: [os.close(i) for i in n])
                self.assertEqual(done.returncode, 0)
                self.assertEqual((self.folder / "out/run/model.onnx").read_bytes(), self.wanted)

    def verbs(self):
        """Returns the verbs, from the first lines of the help text."""
        text = self.run_program("--help_all").stdout
        part = text[text.index("Verbs"):text.index("\nFlags of train")]
        names = re.findall(r"^  ([a-z]+)", part, re.M)
        self.assertGreater(len(names), 14)
        return names

    def test_a_reader_that_leaves(self):
        self.fresh()
        for words in [[v, "--help"] for v in self.verbs()] + [["--help"], ["--help", "--all"], ["--print_man"], ["explain"]]:
            with self.subTest(words):
                out, into = os.pipe()
                os.close(out)
                done = subprocess.run([self.binary, *words], stdout=into, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
                os.close(into)
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    @unittest.skipUnless(os.access("/dev/full", os.W_OK), "there is no /dev/full")
    def test_a_full_device(self):
        self.fresh()
        self.assertEqual(self.run_program("model.onnx", *TRAIN).returncode, 0)
        cases = [[v, "--help"] for v in self.verbs()] + [["--help"], ["--print_man"], ["explain"], ["check", "model.onnx"], ["plan", "model.onnx"],
                 ["eval", "out/run", "--val", "data.safetensors"]]  # fmt: skip
        for words in cases:
            with self.subTest(words), open("/dev/full", "wb") as full:
                done = subprocess.run([self.binary, *words], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, STORAGE, done.stderr)
                self.assertEqual(json.loads(done.stderr.splitlines()[-1])["id"], "E_WRITE")
        for words in (["predict", "out/run", "--inputs", "data.safetensors", "--out", "/dev/full"],
                      ["eval", "out/run", "--val", "data.safetensors", "--junit", "/dev/full/x"],
                      ["eval", "out/run", "--val", "data.safetensors", "--out", "/dev/full/x"]):
            with self.subTest(words):
                done = self.run_program(*words)
                self.assertIn(done.returncode, (2, STORAGE), done.stderr)
                self.assertIn("/dev/full", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    flags, rest = parser.parse_known_args()
    SurroundingsTest.program = os.path.abspath(flags.program)
    unittest.main(argv=[sys.argv[0], *rest])
