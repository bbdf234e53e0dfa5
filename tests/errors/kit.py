"""The table of command lines that raise errors, and helpers to write them (model_cases.py, run_cases.py, data_cases.py).

CASES maps each id to a function(folder), which writes files into the folder and returns the command line. The command
runs with the folder as its working directory."""
import os
import struct
import subprocess
import zlib

import proto

CASES = {}


def case(error):
    def register(body):
        assert error not in CASES, error
        CASES[error] = body
        return body

    return register


class Folder:
    """A temporary folder. A case can write files into it and run the program before the command that must fail.
    environment, input and stack (limit in bytes) apply to that command."""

    def __init__(self, path, binary):
        self.path, self.binary, self.environment, self.input = path, binary, {}, ""
        self.stack = None
        self.held = None  # an object that is closed after the command

    def write(self, name, data):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return name

    def run(self, *words):
        done = subprocess.run([self.binary, *words], cwd=self.path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def batch(self, rows=4, name="batch.safetensors", label=lambda r: r % 3, **more):
        x = [0.1 * (i % 7) for i in range(4 * rows)]
        return self.write(name, proto.safetensors({"x": ([rows, 4], x), "label": ([rows], [label(r) for r in range(rows)]), **more}))

    def linear(self, **changes):
        return self.write("model.onnx", proto.linear(**changes))

    def trained(self, *more):
        """Makes a run of two steps with checkpoints. Returns a command line that continues the run."""
        self.run(self.linear(), "--train", self.batch(), "--max_steps", "2", "--save_steps", "1", "--output_dir", "run", *more)
        return TRAIN + ["--max_steps", "4", "--output_dir", "run"]


TRAIN = ["model.onnx", "--train", "batch.safetensors"]


def train(*more):
    return [*TRAIN, "--max_steps", "1", "--output_dir", "run", *more]


def vocabulary(folder):
    return folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nso\nday\nis\n")


def png(width, height, channels=3):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x40" * width * channels) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
