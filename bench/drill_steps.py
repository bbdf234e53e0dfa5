"""Building blocks of the drill's cases: commands, and steps that make or damage files."""

import os
import shutil

IMAGES = ["--loss", "cross_entropy", "--batch_size", "8", "--quiet", "--threads", "1"]
TEXT = [
    "--vocab",
    "vocab.txt",
    "--text_columns",
    "text",
    "--label_column",
    "sentiment",
    "--num_labels",
    "3",
    "--batch_size",
    "8",
    "--quiet",
    "--threads",
    "1",
]


def images(*more, data="few.safetensors", model="lenet.onnx"):
    return [model, "--train", data, *IMAGES, *more]


def text(*more, data="t.csv"):
    return ["bert.onnx", "--train", data, *TEXT, *more]


def run(*more):
    return images("--output_dir", "run", *more)


def long_run(*more):
    return images("--output_dir", "run", "--max_steps", "400", "--save_steps", "20", *more, data="many.safetensors")


def write(name, content):
    def f(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return f


def copy(a, b):
    def f(folder):
        (folder / b).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / a, folder / b)

    return f


def damage(*steps):
    def f(folder):
        for n in steps:
            path = folder / f"run/checkpoints/checkpoint-{n}/state.safetensors"
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

    return f


def fill(room):
    """Fills the small disk, so that this many bytes remain free."""

    def f(folder):
        s = os.statvfs(folder / "disk")
        (folder / "disk/fill").write_bytes(bytes(s.f_bavail * s.f_frsize - room))

    return f


def make_room(folder):
    (folder / "disk/fill").unlink()


def same(a, b):
    def f(folder):
        assert (folder / a).read_bytes() == (folder / b).read_bytes(), f"{a} is not {b}"

    return f


def absent(*names):
    def f(folder):
        there = [n for n in names if (folder / n).exists()]
        assert not there, f"left: {there}"

    return f


def without_graph(folder):
    """Writes a file that begins like a zip archive, not like an ONNX file."""
    (folder / "fake.onnx").write_bytes(b"PK\x03\x04" + bytes(200))


RUN, ONE = ["run/*", "run"], run("--max_steps", "2")
NEW = ["run/.new-run", "run/.new-run/*"]
