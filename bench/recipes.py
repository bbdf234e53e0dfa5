"""The recipes' jobs on all of their data: by the program in fp32 and bf16, and by PyTorch
(recipes_torch.py) from the same weights, with the recipe's learning rates, batches and epochs,
alternating by seed. Measures quality, time and memory; recipes_page.py writes them into
docs/recipes.md.

Every run is kept in --work, so a second call continues after the last finished run. Limits by
--epochs and --limit are recorded and shown. Each side uses one thread, so CPU seconds remain valid on a machine with
other load.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import common

MODELS = common.ROOT / "models"
ARMS = {"ours fp32": ["--use_fp16=false"], "ours bf16": ["--use_bf16"], "torch fp32": "fp32", "torch bf16": "bf16"}


@dataclass
class Job:
    title: str
    recipe: str  # models/RECIPE/config.json has the job's settings
    metric: str
    files: dict  # data files for recipes_torch_jobs.py
    flags: list  # flags of the program
    create: list = field(default_factory=list)  # arguments of `create`; empty: the sentence model
    model_config: str = ""
    config: dict = field(default_factory=dict)  # settings of run.sh in addition to the recipe's configuration


def days(folder, work):
    """Returns the two files of models/rossmann/run.sh: days on which a store was open, the last six weeks for
    evaluation."""
    script = (MODELS / "rossmann" / "run.sh").read_text()
    split = script[script.index("split_days()") : script.index('"$program" create')]
    subprocess.run(["bash", "-euc", f'data="{folder}" out="{work}"\n{split}'], check=True)
    return work / "train.csv", work / "val.csv"


def sentences(task, data, title, train, val, label, columns, val_columns):
    vocab = MODELS / "tweet_sentiment" / "vocab.txt"
    files = {"train": data / train, "val": data / val, "columns": columns, "val_columns": val_columns, "label": label, "vocab": vocab}
    flags = ["--train", data / train, "--val", data / val, "--data_format", "tsv", "--text_columns", ",".join(columns),
             "--val_text_columns", ",".join(val_columns), "--label_column", label, "--vocab", vocab]  # fmt: skip
    return Job(title, "glue", "accuracy", files, flags)


def all_jobs(data, work):
    fashion, camvid = data / "fashion_mnist", data / "segmentation" / "camvid"
    pair = ("#1 String", "#2 String")
    yield "lenet", lambda: Job(
        "LeNet, Fashion-MNIST", "lenet", "accuracy", {"data": fashion},
        ["--train", fashion / "train-images-idx3-ubyte.gz", "--val", fashion / "t10k-images-idx3-ubyte.gz"],
        ["lenet"], "model.json")  # fmt: skip
    yield "mrpc", lambda: sentences("mrpc", data / "glue" / "mrpc", "MiniLM-L3, MRPC", "msr_paraphrase_train.txt",
                                    "msr_paraphrase_test.txt", "Quality", pair, pair)  # fmt: skip

    def rossmann():
        train, val = days(data / "rossmann", work)
        join = data / "rossmann" / "store.csv"
        return Job("Rossmann", "rossmann", "rmspe", {"train": train, "val": val, "join": join},
                   ["--train", train, "--val", val, "--join", f"{join}:Store"], ["tabular"], "model.json")  # fmt: skip

    yield "rossmann", rossmann
    yield "sst2", lambda: sentences("sst2", data / "glue" / "sst2", "MiniLM-L3, SST-2", "train.tsv", "dev.tsv", "label",
                                    ["sentence"], ["content"])  # fmt: skip
    yield "camvid", lambda: Job(
        "U-Net, CamVid", "unet", "miou", {"data": camvid},
        ["--train", camvid / "train", "--train_masks", camvid / "trainannot", "--val", camvid / "val", "--val_masks",
         camvid / "valannot", "--mask_ignore", 11, "--transforms", "random_crop 256 | horizontal_flip | color_jitter 0.2 0.2 0.2",
         "--eval_transforms", "resize 352,480"],
        ["unet"], '{"in_chans": 3, "num_classes": 11}', {"epochs": 60})  # fmt: skip


JOBS = [name for name, _ in all_jobs(Path(), Path())]


class Runs:
    def __init__(self, args, name, job):
        self.args, self.name, self.job = args, name, job
        self.config = json.loads((MODELS / job.recipe / "config.json").read_text()) | job.config
        self.whole = self.config["epochs"]
        if args.epochs:
            self.config["epochs"] = args.epochs
        given = job.model_config if job.model_config.startswith("{") else str(MODELS / job.recipe / job.model_config)
        self.model_config = given

    def model(self, seed):
        if not self.job.create:
            return self.args.minilm
        path = self.args.work / f"{self.name}-{seed}.onnx"
        words = ["create", *self.job.create, "--model_config", self.model_config, "--seed", seed, "--out", path]
        common.run_ours(self.args.binary, *words)
        return path

    def ours(self, model, seed, flags):
        out = self.args.work / "run"
        more = ["--limit_train", self.args.limit] if self.args.limit else []
        command = [self.args.binary, model, "--config", MODELS / self.job.recipe / "config.json", *self.job.flags, *flags, *more,
                   "--epochs", self.config["epochs"], "--seed", seed, "--threads", self.args.threads, "--output_dir", out,
                   "--overwrite", "--quiet"]  # fmt: skip
        usage, _ = self.call(command)
        run = json.loads((out / "run.json").read_text())
        return usage | {"steps": run["steps"]["attempted"], "skipped_steps": run["steps"]["skipped"],
                        "metrics": numbers(run["final_metrics"]), "before": numbers(run["initial_metrics"]),
                        "seconds": run["timing"]["train_seconds"], "peak_bytes": run["peak_memory_bytes"]}  # fmt: skip

    def torch(self, model, seed, precision):
        spec = {"job": self.name, "config": self.config, "model": model, "model_config": self.model_config, "seed": seed,
                "precision": precision, "threads": self.args.threads, "limit": self.args.limit, "binary": self.args.binary}  # fmt: skip
        path = self.args.work / "spec.json"
        path.write_text(json.dumps(spec | self.job.files, default=str))
        usage, out = self.call([sys.executable, Path(__file__).parent / "recipes_torch.py", "--spec", path])
        r = json.loads(out.splitlines()[-1])
        usage["cpu_seconds"] -= r["import_cpu_seconds"]  # excludes the time of Python's imports
        return usage | r

    def call(self, command):
        env = dict(os.environ, OMP_NUM_THREADS=str(self.args.threads), TOKENIZERS_PARALLELISM="false")
        began = time.monotonic()
        with open(self.args.work / "stdout", "w+") as out, open(self.args.work / "stderr", "w+") as err:
            process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, env=env)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            if process.returncode != 0:
                raise SystemExit(f"{command}\nended with {process.returncode}: {err.read()[-3000:]}")
            return {"wall_seconds": time.monotonic() - began, "cpu_seconds": usage.ru_utime + usage.ru_stime,
                    "load_average": os.getloadavg()[0]}, out.read()  # fmt: skip

    def result(self, arm, seed):
        model, how = self.model(seed), ARMS[arm]
        r = self.torch(model, seed, how) if arm.startswith("torch") else self.ours(model, seed, how)
        r |= {"job": self.name, "arm": arm, "seed": seed, "epochs": self.config["epochs"], "limit": self.args.limit}
        r |= {"title": self.job.title, "metric": self.job.metric, "recipe": self.job.recipe, "whole_epochs": self.whole}
        return r | {"threads": self.args.threads, "taken": datetime.datetime.now().isoformat(timespec="seconds")}


def check_begins(report):
    """Checks that runs of one seed, which start with the same file, have the same metric before training."""
    for r in [r for r in report["runs"] if r["arm"] == "torch fp32" and r["recipe"] != "glue"]:
        for o in report["runs"]:
            same = all(o[k] == r[k] for k in ("job", "epochs", "limit", "seed")) and o["arm"] == "ours fp32"
            if same and abs(o["before"][r["metric"]] - r["by_epoch"][0][r["metric"]]) > 1e-3:
                raise SystemExit(f"{r['job']}, seed {r['seed']}: {o['before']} before training, PyTorch {r['by_epoch'][0]}")


def numbers(metrics):
    return {k: v for k, v in metrics.items() if isinstance(v, (int, float))}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with fashion_mnist, rossmann, glue, segmentation")
    parser.add_argument("--work", type=Path, required=True, help="what was run is kept here")
    parser.add_argument("--binary")
    parser.add_argument("--minilm", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS)[:3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=0, help="0: the recipe's")
    parser.add_argument("--limit", type=int, default=0, help="training rows; 0: all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default=f"docs/results/recipes-{datetime.date.today()}.json")
    args = parser.parse_args()
    args.work, args.data = args.work.resolve(), args.data.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    args.binary, args.minilm = common.find_binary(args.binary), common.find_minilm(args.minilm)
    state = args.work / "state.json"
    report = json.loads(state.read_text()) if state.exists() else {"runs": []}
    report["machine"] = common.machine_facts(args.binary)
    done = {tuple(r[k] for k in ("job", "epochs", "limit", "seed", "arm")) for r in report["runs"]}
    for name, make in all_jobs(args.data, args.work):
        if name not in args.jobs:
            continue
        runs = Runs(args, name, make())
        for seed, arm in [(s, a) for s in args.seeds for a in args.arms]:
            if (name, runs.config["epochs"], args.limit, seed, arm) in done:
                continue
            report["runs"].append(runs.result(arm, seed))
            common.write_json(state, report)
            told = {k: v for k, v in report["runs"][-1].items() if k in ("metrics", "seconds", "cpu_seconds", "peak_bytes")}
            print(name, arm, seed, json.dumps(told), flush=True)
    check_begins(report)
    common.write_json(args.out, report)


if __name__ == "__main__":
    main()
