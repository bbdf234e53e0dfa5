"""Cases of the drill: small disks and limits, damaged checkpoints, signals. tests/campaigns has
signals, kills and full disks in all phases of a run."""

from signal import SIGINT, SIGTERM

from drill import Case
from drill_steps import (
    NEW,
    ONE,
    RUN,
    absent,
    copy,
    damage,
    fill,
    images,
    long_run,
    make_room,
    run,
    same,
    write,
)

DISKS = [
    Case(
        "export to a full disk",
        ["export", "lenet.onnx", "--out", "disk/x.onnx"],
        7,
        "E_WRITE",
        quick=False,
        how={"tmpfs": "2m", "fill": fill(100_000)},
        then=[make_room, (["export", "lenet.onnx", "--out", "disk/x.onnx"], 0)],
    ),
    Case(
        "export over a file on a full disk",
        ["export", "lenet.onnx", "--out", "disk/x.onnx"],
        7,
        "E_WRITE",
        quick=False,
        how={"tmpfs": "2m", "fill": lambda d: (copy("lenet.onnx", "disk/x.onnx")(d), fill(100_000)(d))},
    ),
    Case(
        "predictions to a full disk",
        ["predict", "lenet.onnx", "--inputs", "few.safetensors", "--out", "disk/p.safetensors"],
        7,
        "E_WRITE",
        quick=False,
        how={"tmpfs": "64k", "fill": fill(0)},
    ),
    Case("a file size limit in a run", run("--max_steps", "1"), 7, "E_WRITE", how={"fsize": 100_000}, then=[(ONE, 0)]),
    Case(
        "a file size limit in an export",
        ["export", "lenet.onnx", "--out", "x.onnx"],
        7,
        "E_WRITE",
        how={"fsize": 100_000},
    ),
    Case("a closed pipe behind a run", ONE, 0, leaves=RUN, how={"stdout": "closed"}),
    Case("a closed pipe behind check", ["check", "lenet.onnx"], 0, how={"stdout": "closed"}),
    Case("a full disk behind plan", ["plan", "lenet.onnx"], 7, "E_WRITE", how={"stdout": "full"}),
    Case(
        "an address space of 150 MB",
        images("--output_dir", "run", "--batch_size", "3000", data="many.safetensors"),
        9,
        "E_OOM",
        how={"memory": 150_000_000},
        quick=False,
    ),
    Case(
        "a control group of 64 MB",
        images("--output_dir", "run", "--batch_size", "3000", data="many.safetensors"),
        9,
        "E_OOM",
        how={"cgroup": 64 << 20},
        quick=False,
    ),
]
CHECKPOINTS = [
    Case(
        "every checkpoint damaged",
        run("--max_steps", "4", "--resume", "auto"),
        6,
        "E_CKPT_DAMAGED",
        setup=[run("--max_steps", "2", "--save_steps", "1"), damage(1, 2)],
        then=[(run("--max_steps", "2", "--overwrite"), 0)],
    ),
    Case(
        "the newest checkpoint damaged",
        run("--max_steps", "2", "--save_steps", "1", "--resume", "auto"),
        0,
        setup=[run("--max_steps", "2", "--save_steps", "1"), damage(2)],
        leaves=RUN,
        says="W_CKPT_FALLBACK",
    ),
    Case(
        "a manifest cut short",
        run("--max_steps", "2", "--resume", "auto"),
        6,
        "E_CKPT_DAMAGED",
        setup=[run("--max_steps", "1"), write("run/checkpoints/checkpoint-1/manifest.json", "{")],
    ),
    Case(
        "resume with another learning rate",
        run("--max_steps", "2", "--resume", "auto", "--lr", "7e-3"),
        6,
        "E_CKPT_MISMATCH",
        setup=[ONE],
        leaves=RUN,
    ),
    Case("resume from a folder without checkpoints", run("--resume", "{d}"), 6, "E_CKPT_MISSING"),
    Case(
        "resume where the model is one's own",
        run("--output_dir", "own", "--resume", "auto"),
        2,
        "E_OUTPUT_FOREIGN",
        setup=[copy("lenet.onnx", "own/model.onnx")],
    ),
]


def stopped(name, number, when, code, command, **more):
    id = "E_STOPPED" if code == 75 else "E_INTERRUPTED"
    return Case(name, command, code, id, how={"signal": number, "when": when}, quick=False, **more)


WHOLE = long_run("--output_dir", "whole")
SIGNALS = [
  # Signals are sent a moment after the start, because before main() they would have their default action.
    stopped(
        "Ctrl-C in `eval`",
        SIGINT,
        0.25,
        130,
        [
            "eval",
            "lenet.onnx",
            "--inputs",
            "many.safetensors",
            "--loss",
            "cross_entropy",
            "--batch_size",
            "2",
            "--threads",
            "1",
        ],
    ),
    stopped(
        "Ctrl-C while a plan is measured",
        SIGINT,
        0.25,
        130,
        [
            "plan",
            "lenet.onnx",
            "--calibrate",
            "many.safetensors",
            "--loss",
            "cross_entropy",
            "--batch_size",
            "500",
            "--batches",
            "6",
            "--threads",
            "1",
        ],
    ),
    stopped(
        "SIGTERM in a replacing run",
        SIGTERM,
        "run/.new-run/metrics.jsonl",
        75,
        long_run("--overwrite"),
        setup=[ONE],
        leaves=NEW,
        then=[
            (long_run("--resume", "auto"), 0),
            absent("run/.new-run"),
            (WHOLE, 0),
            same("run/model.onnx", "whole/model.onnx"),
        ],
    ),
]

LIMITS = DISKS + CHECKPOINTS + SIGNALS
