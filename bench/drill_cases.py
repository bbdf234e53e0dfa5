"""The drill's cases: a command, what it must end with, what may be left, and what the hint's advice then does."""

import os
import shutil
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM

from drill import Case

IMAGES = ["--loss", "cross_entropy", "--batch_size", "8", "--quiet", "--threads", "1"]
TEXT = ["--vocab", "vocab.txt", "--text_columns", "text", "--label_column", "sentiment", "--num_labels", "3",
        "--batch_size", "8", "--quiet", "--threads", "1"]  # fmt: skip


def images(*more, data="few.safetensors", model="lenet.onnx"):
    return [model, "--train", data, *IMAGES, *more]


def text(*more, data="t.csv"):
    return ["bert.onnx", "--train", data, *TEXT, *more]


def run(*more):
    return images("--output_dir", "run", *more)


def long_run(*more):
    return images("--output_dir", "run", "--max_steps", "400", "--save_steps", "20", *more, data="many.safetensors")


def evaluated(*more):
    return long_run("--val", "many.safetensors", *more)


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
    """All but so many bytes of the small disk."""

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
    """A container format that is no ONNX file."""
    (folder / "fake.onnx").write_bytes(b"PK\x03\x04" + bytes(200))


RUN, ONE = ["run/*", "run"], run("--max_steps", "2")
NEW = ["run/.new-run", "run/.new-run/*"]
FLAGS = [
    Case("a flag that is none", run("--lrr", "1"), 2, "E_USAGE"),
    Case("a flag without its value", run("--lr"), 2, "E_USAGE"),
    Case("a value out of range", run("--lr", "-1"), 2, "E_USAGE"),
    Case("a word for a number", run("--batch_size", "many"), 2, "E_USAGE"),
    Case("no data", ["lenet.onnx", "--loss", "cross_entropy"], 2, "E_USAGE"),
    Case("two 16-bit types", run("--use_fp16", "--use_bf16"), 2, "E_USAGE"),
    Case("resume and overwrite", run("--resume", "auto", "--overwrite"), 2, "E_USAGE"),
    Case("a gate without validation data", run("--require", "accuracy>=0.9"), 2, "E_USAGE"),
    Case("a loss that is none", run("--loss", "crossentropy"), 2),
    Case("a task that is none", run("--task", "FOO"), 2, "E_USAGE"),
    Case("an output that is none", run("--output", "nothing"), 2),
    Case("a configuration that is missing", run("--config", "none.json"), 2, "E_USAGE"),
    Case("a configuration that is no JSON", run("--config", "t.csv"), 2, "E_USAGE"),
    Case("a key that is none", run("--config", "c.json"), 2, "E_USAGE", setup=[write("c.json", '{"lrr": 1}')]),
    Case("overwrite in a configuration", run("--config", "c.json"), 2, "E_USAGE",
         setup=[write("c.json", '{"overwrite": true}')]),
    Case("every parameter frozen", run("--freeze", "*"), 2, "E_NOTHING_TRAINS", then=[(ONE, 0)]),
    Case("export of a folder without a run", ["export", "{d}", "--out", "x.onnx"], 2, "E_RUN"),
]  # fmt: skip
MODELS = [
    Case("a model that is missing", images(model="none.onnx"), 2),
    Case("a folder for a model", images(model="{d}"), 2),
    Case("an empty model", images(model="empty.onnx"), 3),
    Case("a model cut short", images(model="cut.onnx"), 3),
    Case("a table for a model", images(model="t.csv"), 3),
    Case("an archive for a model", images(model="fake.onnx"), 3, setup=[without_graph]),
    Case("a teacher that is missing", run("--teacher", "none.onnx", "--loss", "distill"), 2),
]
DATA = [
    Case("training data that are missing", images("--output_dir", "run", data="none.safetensors"), 5),
    Case("validation data that are missing", run("--val", "none.safetensors"), 5),
    Case("a folder for data", images("--output_dir", "run", data="{d}"), [2, 5]),
    Case("an empty table", text(data="empty.csv"), 5),
    Case("a header without rows", text(data="h.csv"), 5, setup=[write("h.csv", "text,sentiment\n")]),
    Case("a quote that is not closed", text(data="q.csv"), 5, setup=[write("q.csv", 'text,sentiment\n"a film,pos\n')]),
    Case("a row of other width", text(data="w.csv"), 5, setup=[write("w.csv", "text,sentiment\na,pos\na,b,c,neg\n")]),
    Case("a column that is none", text("--text_columns", "txt"), 5),
    Case("a label column that is none", text("--label_column", "label"), 5),
    Case("a label that training has not", text("--val", "v.csv"), 5, setup=[write("v.csv", "text,sentiment\na,odd\n")]),
    Case("a table that is not UTF-8", text(data="u.csv"), 5, setup=[write("u.csv", b"text,sentiment\n\xff\xfe,pos\n")]),
    Case("text without a vocabulary", ["bert.onnx", "--train", "t.csv", "--text_columns", "text", "--label_column",
                                       "sentiment", "--num_labels", "3"], 2),
    Case("a vocabulary that is missing", text("--vocab", "none.txt"), [2, 5]),
    Case("tensors cut short", images("--output_dir", "run", data="t.safetensors"), 5),
    Case("labels out of range", images("--output_dir", "run", data="range.safetensors"), 5),
    Case("data that are not numbers", images("--output_dir", "run", "--epochs", "30", "--max_consecutive_skips", "5",
                                             "--use_fp16", data="nan.safetensors"), [5, 8], leaves=RUN),
]  # fmt: skip
FOLDERS = [
    Case("a file for the output folder", run("--output_dir", "t.csv"), 7, "E_WRITE"),
    Case("an output folder under a file", run("--output_dir", "t.csv/run"), 7, "E_WRITE"),
    Case("a folder that holds a run", ONE, 2, "E_OUTPUT_EXISTS", setup=[ONE],
         then=[(run("--max_steps", "2", "--resume", "auto"), 0), (run("--max_steps", "2", "--overwrite"), 0)]),
    Case("the configuration of a finished run", ["--config", "run/run.json"], 2, "E_OUTPUT_EXISTS",
         setup=[run("--max_steps", "2", "--overwrite")]),
    Case("a folder with one's own model", run("--output_dir", "own"), 2, "E_OUTPUT_FOREIGN",
         setup=[copy("lenet.onnx", "own/model.onnx")], then=[(run("--max_steps", "1", "--output_dir", "other"), 0)]),
    Case("--overwrite over one's own model", run("--output_dir", "own", "--overwrite"), 2, "E_OUTPUT_FOREIGN",
         setup=[copy("lenet.onnx", "own/model.onnx")]),
    Case("--overwrite over the model that is trained", images("--output_dir", "run", "--overwrite", model="run/model.onnx"),
         2, "E_OUTPUT_INPUT", setup=[ONE]),
    Case("--overwrite where the user's plan lies", run("--overwrite", "--precision_plan", "run/precision_plan.json"),
         2, "E_OUTPUT_INPUT", setup=[ONE]),
    Case("--overwrite with a mistake in the data", run("--overwrite", "--val", "none.safetensors"), 5, setup=[ONE]),
    Case("--overwrite with a run that diverges", run("--overwrite", "--use_fp16", "--inject_overflow", "0-9",
                                                     "--max_steps", "9", "--max_consecutive_skips", "3"), 8, "E_DIVERGED",
         setup=[ONE], leaves=NEW, then=[(run("--overwrite", "--max_steps", "1"), 0), absent("run/.new-run")]),
    Case("divergence on text without padding", text("--output_dir", "run", "--use_fp16", "--inject_overflow", "0-6",
                                                    "--max_consecutive_skips", "3"), 8, "E_DIVERGED", leaves=RUN),
    Case("a second run in the same folder", long_run(), 11, "E_LOCKED", leaves=RUN, how={"hold": long_run()}, quick=False),
    Case("results into a folder that is missing", ["export", "lenet.onnx", "--out", "none/x.onnx"], 7, "E_WRITE"),
    Case("a plan into a folder that is missing", ["plan", "lenet.onnx", "--out", "none/plan.json"], 7, "E_WRITE"),
    Case("gradients into a folder that is missing", ["grad", "lenet.onnx", "--inputs", "few.safetensors", "--loss",
                                                     "cross_entropy", "--out", "none/g.safetensors"], 7, "E_WRITE"),
]  # fmt: skip
DISKS = [
    Case("a full disk at the start", run("--output_dir", "disk/run"), 7, "E_WRITE", quick=False,
         how={"tmpfs": "2m", "fill": fill(100_000)}, then=[make_room, (run("--output_dir", "disk/run", "--max_steps", "1"), 0)]),
    Case("a full disk while a checkpoint is written", run("--output_dir", "disk/run", "--max_steps", "40", "--save_steps",
                                                          "1", "--save_total_limit", "0"), 7, "E_WRITE", quick=False,
         how={"tmpfs": "8m"}, leaves=["disk/run", "disk/run/*"],
         then=[absent("disk/run/model.onnx", "disk/run/.finish"),
               (["export", "disk/run", "--out", "x.onnx"], 0),
               (run("--output_dir", "disk/run", "--max_steps", "40", "--save_steps", "1", "--save_total_limit", "2",
                    "--resume", "auto"), 7)]),
    Case("a full disk while the model is written", run("--output_dir", "disk/run", "--max_steps", "1", "--ema_decay",
                                                        "0.9"), 7, "E_WRITE",
         quick=False, how={"tmpfs": "2m", "fill": fill(1_150_000)}, leaves=["disk/run", "disk/run/*"],
         then=[absent("disk/run/.finish"), make_room,
               (run("--output_dir", "disk/run", "--max_steps", "1", "--ema_decay", "0.9", "--resume", "auto"), 0)]),
    Case("export to a full disk", ["export", "lenet.onnx", "--out", "disk/x.onnx"], 7, "E_WRITE", quick=False,
         how={"tmpfs": "2m", "fill": fill(100_000)}, then=[make_room, (["export", "lenet.onnx", "--out", "disk/x.onnx"], 0)]),
    Case("export over a file on a full disk", ["export", "lenet.onnx", "--out", "disk/x.onnx"], 7, "E_WRITE", quick=False,
         how={"tmpfs": "2m", "fill": lambda d: (copy("lenet.onnx", "disk/x.onnx")(d), fill(100_000)(d))}),
    Case("predictions to a full disk", ["predict", "lenet.onnx", "--inputs", "few.safetensors", "--out",
                                        "disk/p.safetensors"], 7, "E_WRITE", quick=False,
         how={"tmpfs": "64k", "fill": fill(0)}),
    Case("a file size limit in a run", run("--max_steps", "1"), 7, "E_WRITE", how={"fsize": 100_000}, then=[(ONE, 0)]),
    Case("a file size limit in an export", ["export", "lenet.onnx", "--out", "x.onnx"], 7, "E_WRITE", how={"fsize": 100_000}),
    Case("a closed pipe behind a run", ONE, 0, leaves=RUN, how={"stdout": "closed"}, says="warning: cannot write"),
    Case("a closed pipe behind check", ["check", "lenet.onnx"], 7, "E_WRITE", how={"stdout": "closed"}),
    Case("a full disk behind plan", ["plan", "lenet.onnx"], 7, "E_WRITE", how={"stdout": "full"}),
    Case("an address space of 150 MB", images("--output_dir", "run", "--batch_size", "3000", data="many.safetensors"), 9,
         "E_OOM", how={"memory": 150_000_000}, quick=False),
    Case("a control group of 64 MB", images("--output_dir", "run", "--batch_size", "3000", data="many.safetensors"), 9,
         "E_OOM", how={"cgroup": 64 << 20}, quick=False),
]  # fmt: skip
CHECKPOINTS = [
    Case("every checkpoint damaged", run("--max_steps", "4", "--resume", "auto"), 6, "E_CKPT_DAMAGED",
         setup=[run("--max_steps", "2", "--save_steps", "1"), damage(1, 2)],
         then=[(run("--max_steps", "2", "--overwrite"), 0)]),
    Case("the newest checkpoint damaged", run("--max_steps", "2", "--save_steps", "1", "--resume", "auto"), 0,
         setup=[run("--max_steps", "2", "--save_steps", "1"), damage(2)], leaves=RUN, says="W_CKPT_FALLBACK"),
    Case("a manifest cut short", run("--max_steps", "2", "--resume", "auto"), 6, "E_CKPT_DAMAGED",
         setup=[run("--max_steps", "1"), write("run/checkpoints/checkpoint-1/manifest.json", "{")]),
    Case("resume with another learning rate", run("--max_steps", "2", "--resume", "auto", "--lr", "7e-3"), 6,
         "E_CKPT_MISMATCH", setup=[ONE], leaves=RUN),
    Case("resume from a folder without checkpoints", run("--resume", "{d}"), 6, "E_CKPT_MISSING"),
    Case("resume where the model is one's own", run("--output_dir", "own", "--resume", "auto"), 2, "E_OUTPUT_FOREIGN",
         setup=[copy("lenet.onnx", "own/model.onnx")]),
]  # fmt: skip


def stopped(name, number, when, code, command, **more):
    how = {"signal": [number] if not isinstance(number, list) else number, "when": when, **more.pop("how", {})}
    return Case(name, command, code, "E_STOPPED", how=how, quick=False, **more)


WHOLE = long_run("--output_dir", "whole")
SIGNALS = [
    stopped("Ctrl-C at the start", SIGINT, 0.03, [-SIGINT, 130], evaluated()),  # before main the system answers
    stopped("SIGTERM while data are read", SIGTERM, 1, 143, images("--output_dir", "run", data="pipe.safetensors"),
            setup=[lambda d: os.mkfifo(d / "pipe.safetensors")]),
    stopped("Ctrl-C in the first evaluation", SIGINT, "run/run.json", 130, evaluated(), leaves=RUN, how={"delay": 0.02},
            then=[(run("--max_steps", "1"), 0)]),
    stopped("SIGHUP in the first evaluation", SIGHUP, "run/run.json", 129, evaluated(), leaves=RUN, how={"delay": 0.02}),
    stopped("Ctrl-C while it trains", SIGINT, "run/metrics.jsonl", 75, long_run(), leaves=RUN, setup=[WHOLE],
            then=[(long_run("--resume", "auto"), 0), same("run/model.onnx", "whole/model.onnx")]),
    stopped("SIGTERM while it trains", SIGTERM, "run/metrics.jsonl", 75, long_run(), leaves=RUN,
            then=[(["export", "run", "--out", "x.onnx"], 0)]),
    stopped("SIGHUP while it trains", SIGHUP, "run/metrics.jsonl", 75, long_run(), leaves=RUN),
    stopped("Ctrl-C twice", [SIGINT, SIGINT], "run/metrics.jsonl", [75, 130],
            images("--output_dir", "run", "--batch_size", "3000", "--max_steps", "9", data="many.safetensors"), leaves=RUN),
    stopped("Ctrl-C in a later evaluation", SIGINT, "run/eval.jsonl", 75, evaluated("--eval_steps", "1", "--max_steps", "6"),
            leaves=RUN, how={"delay": 0.1}, setup=[evaluated("--eval_steps", "1", "--max_steps", "6", "--output_dir", "whole")],
            then=[(evaluated("--eval_steps", "1", "--max_steps", "6", "--resume", "auto"), 0),
                  same("run/eval.jsonl", "whole/eval.jsonl"), same("run/model.onnx", "whole/model.onnx")]),
    stopped("Ctrl-C in `eval`", SIGINT, 0.25, 130, ["eval", "lenet.onnx", "--inputs", "many.safetensors", "--loss",
                                                   "cross_entropy", "--batch_size", "2", "--threads", "1"]),
    stopped("Ctrl-C while a plan is measured", SIGINT, 0.25, 130,
            ["plan", "lenet.onnx", "--calibrate", "many.safetensors", "--loss", "cross_entropy", "--batch_size", "500",
             "--batches", "6", "--threads", "1"]),
    stopped("SIGTERM in a replacing run", SIGTERM, "run/.new-run/metrics.jsonl", 75, long_run("--overwrite"), setup=[ONE],
            leaves=NEW, then=[(long_run("--resume", "auto"), 0), absent("run/.new-run"), (WHOLE, 0),
                              same("run/model.onnx", "whole/model.onnx")]),
    Case("SIGKILL in a replacing run", long_run("--overwrite"), -9, setup=[ONE], leaves=NEW, quick=False,
         how={"signal": [SIGKILL], "when": "run/.new-run/checkpoints"},
         then=[(["export", "run", "--out", "old.onnx"], 0), same("old.onnx", "run/model.onnx"),
               (long_run("--resume", "auto"), 0), absent("run/.new-run")]),
    Case("SIGKILL while it trains", long_run(), -9, leaves=RUN, quick=False, setup=[WHOLE],
         how={"signal": [SIGKILL], "when": "run/checkpoints/checkpoint-40"},
         then=[(long_run("--resume", "auto"), 0), same("run/model.onnx", "whole/model.onnx")]),
    Case("SIGKILL in the first evaluation", evaluated(), -9, leaves=RUN, quick=False,
         how={"signal": [SIGKILL], "when": "run/run.json"}, then=[(run("--max_steps", "1"), 0)]),
]  # fmt: skip

CASES = FLAGS + MODELS + DATA + FOLDERS + DISKS + CHECKPOINTS + SIGNALS
assert len({c.name for c in CASES}) == len(CASES)
