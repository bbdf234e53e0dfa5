"""Repeats a run with other numbers of threads and loading threads, and other caches. model.onnx, checkpoints and metrics
must have the same bytes.

A try is one run of a model in a precision. Runs on another instruction set may differ (docs/training.md), so the set
is that of this machine, or with ONNX_AMP_MAX_ISA a lower one for all runs of a group.
"""
import json
import platform
import shutil

from compare import contents, differences
from job import ROOT, job, write_materials

MODELS = ["lenet_relu_dyn18", "convnext_ts17", "resnet_train_ts17", "rnn_lstm_ts14", "unet_convt_ce_dyn18"]
PRECISIONS = [[], ["--use_fp16"], ["--use_bf16"]]
LEVELS = [None, *{"x86_64": ["v3", "v2"], "aarch64": ["neon"]}[platform.machine()]]
VARIANTS = [["--threads", "1"], ["--threads", "2"], ["--threads", "3"], ["--threads", "1", "--loading_threads", "1"],
            ["--threads", "2", "--loading_threads", "4"]]


def run(campaign):
    """Compares the variants of each group of (model, precision, instruction set), in random order."""
    write_materials(campaign.folder)
    groups = [(m, p, level) for level in LEVELS for p in PRECISIONS for m in ["text", *MODELS]]
    campaign.random.shuffle(groups)
    for model, precision, level in groups:
        wanted = None
        for variant in VARIANTS:
            if not campaign.more():
                return
            got = trained(campaign, model, precision, level, variant)
            wanted = wanted or got
            what = f"{model} {' '.join(precision) or 'fp32'} {level or 'highest'}"
            campaign.tried(f"{' '.join(precision) or 'fp32'}, instruction set: {level or 'highest'}")
            campaign.fault(f"{what}: {' '.join(variant)}", *differences(wanted, got)[:3])


def trained(campaign, model, precision, level, variant):
    """Returns the bytes of a run with an empty cache."""
    folder = campaign.folder
    for name in ("run", "cache"):
        shutil.rmtree(folder / name, ignore_errors=True)
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": ""}
    if level:
        environment["ONNX_AMP_MAX_ISA"] = level
    words = text_words(precision) if model == "text" else zoo_words(model, precision)
    campaign.program.succeed([*words, *variant], folder, env=environment)
    found = contents(folder / "run")
    del found["run.json"]  # run.json records the number of threads
    for checkpoint in found["checkpoints"].values():
        del checkpoint[1:]  # the manifest also records the number of threads
    return found


def text_words(precision):
    """Returns the command line of the campaigns' job in a precision, without the number of threads."""
    words = job("run", steps=12, save=6, evaluate=6)
    drop = {"--threads": 2, "--use_fp16": 1, "--inject_overflow": 2}
    if precision == ["--use_fp16"]:
        del drop["--use_fp16"], drop["--inject_overflow"]
        precision = []
    for flag, count in drop.items():
        at = words.index(flag)
        del words[at:at + count]
    return words + precision


def zoo_words(name, precision):
    """Returns the command line of a run of a few steps, with a model of the tests' zoo."""
    path = ROOT / "tests/data/zoo" / name
    loss = json.loads((path / "ref.json").read_text()).get("loss_kind", "cross_entropy")
    return [path / "model.onnx", "--train", path / "batch.safetensors", "--loss", loss, "--batch_size", "4",
            "--seed", "3", "--max_steps", "6", "--save_strategy", "steps", "--save_steps", "3",
            "--quiet", "--output_dir", "run", *precision]
