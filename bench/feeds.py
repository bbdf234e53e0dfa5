"""Trains on data sets in the form in which their authors publish them, one command each: some
steps, export, and `predict` on the set's own file. onnxruntime then runs the exported file on
inputs made by other tools (feeds_check.py). Prints a table; feeds_page.py makes docs/feeding.md
from --out.

Exits with 1 if a row differs by more than rounding can explain, or if a command fails.
"""

import argparse
import datetime
import json
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import common
import feeds_cases
import feeds_check

UNDECIDED = 0.001  # share of rows that may differ because two scores are equal up to rounding


def make_tokenizer(case, text):
    """Makes a tokenizer that is not in a data set: a folder with GPT-2's two files, or a new tokenizer with as many
    tokens as the model's table has rows."""
    if "files" in case.reads:
        case.reads["folder"].mkdir(parents=True)
        for name, path in case.reads["files"].items():
            shutil.copyfile(path, case.reads["folder"] / name)
    if "letters" in case.reads:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        room = case.reads["letters"]
        trainer = trainers.BpeTrainer(
            vocab_size=room, limit_alphabet=room - 40, special_tokens=["<unk>", "<|endoftext|>"], show_progress=False
        )
        tokenizer.train([str(text / "train.txt")], trainer)
        case.reads["file"].parent.mkdir(parents=True)
        tokenizer.save(str(case.reads["file"]))


class Feed:
    def __init__(self, args, work, case):
        self.args, self.case, self.work = args, case, work
        self.run_dir = work / "runs" / case.name
        self.row = {"name": case.name, "data": case.data}

    def without_places(self, text):
        places = {self.args.data: "DATA/", self.args.zoo: "ZOO/", self.args.text: "TEXT/", self.args.minilm.parent: ""}
        for path, name in {**places, self.work: "", common.ROOT: ""}.items():
            text = text.replace(f"{path}/", name)
        return text

    def shown(self, words):
        """Returns the command as a user would type it."""
        return self.without_places(" ".join(shlex.quote(str(w)) for w in words))

    def call(self, *words):
        started = time.monotonic()
        done = subprocess.run([str(self.args.binary), *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.shown(words)}\nended with {done.returncode}: {self.without_places(done.stderr[-1500:])}")
        return time.monotonic() - started, done

    def model(self):
        case = self.case
        if case.model == feeds_cases.MINILM:
            return self.args.minilm
        if isinstance(case.model, Path):
            return case.model
        path = self.work / f"{case.name}.onnx"
        head = ["--model_head", case.head] if case.head else []
        words = ["create", case.model, "--model_config", json.dumps(case.create), *head, "--out", path]
        self.call(*words)
        self.row["create"] = self.shown(words)
        return path

    def train(self, model):
        words = [model, *self.case.train, "--max_steps", self.args.steps, "--output_dir", self.run_dir]
        self.row["train"] = self.shown(words)
        self.row["train_seconds"], done = self.call(*words, "--threads", self.args.threads)
        told = self.without_places(done.stderr).splitlines()
        self.row["notes"] = [x for x in told if x.startswith(("warning", "note"))]
        run = json.loads((self.run_dir / "run.json").read_text())
        self.row["before"], self.row["after"] = (
            {k: v for k, v in run[f"{w}_metrics"].items() if isinstance(v, float)} for w in ("initial", "final")
        )
        if run["steps"]["attempted"] != self.args.steps:
            raise RuntimeError(f"{run['steps']} steps, {self.args.steps} were wanted")

    def predict(self):
        table = self.case.agree is feeds_check.raw_rows
        out = self.work / (self.case.name + ("/" if self.case.masks else ".csv" if table else ".jsonl"))
        target = f"{out}/" if self.case.masks else out
        words = ["predict", self.run_dir, "--inputs", self.case.inputs, *self.case.predict, "--out", target]
        self.row["predict"] = self.shown(words)
        self.row["predict_seconds"], _ = self.call(*words, "--threads", self.args.threads)
        more = None
        if table:
            more = self.work / f"{self.case.name}.raw.onnx"
            words = ["export", self.run_dir, "--out", more, "--export_raw_rows"]
            self.row["export"] = self.shown(words)
            self.call(*words)
        if self.case.agree is feeds_check.tags:
            more = self.work / f"{self.case.name}.npz"
            self.call(*words[:-1], more, "--threads", self.args.threads)
        return feeds_check.Made(self.case, self.run_dir / "model.onnx", out, more)

    def result(self):
        try:
            make_tokenizer(self.case, self.args.text)
            self.train(self.model())
            made = self.predict()
            self.row.update(self.case.agree(made))
            allowed = max(1, UNDECIDED * self.row["rows"]) if self.row["largest_difference"] < 1e-3 else 0
            self.row["agrees"] = self.row["rows"] - self.row["equal"] <= allowed
        except (RuntimeError, AssertionError, KeyError) as error:
            self.row.update(agrees=False, error=f"{type(error).__name__}: {error}")
        return self.row


def print_table(rows):
    print("| data | train, predict (s) | rows | equal | largest difference | |\n|---|---:|---:|---:|---:|---|")
    for r in rows:
        if "error" in r:
            print(f"| {r['data']} | | | | | {r['error'].splitlines()[0]} |")
            continue
        seconds = f"{r['train_seconds']:.0f}, {r['predict_seconds']:.0f}"
        print(f"| {r['data']} | {seconds} | {r['rows']:,} | {r['equal']:,} | {r['largest_difference']:.1e} ({r['of']}) |"
              f" {'' if r['agrees'] else 'DIFFERS'} |")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with glue, xnli, ner, qa, fashion_mnist ...")
    parser.add_argument("--zoo", type=Path, required=True, help="folder with gpt2_lm_dyn18/model.onnx")
    parser.add_argument("--text", type=Path, default=common.ROOT / "models" / "language_model" / "sample")
    parser.add_argument("--minilm", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--binary")
    parser.add_argument("--only", nargs="+", help="names of cases")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=Path, help="where runs and predictions are left; default: a folder that goes")
    parser.add_argument("--out", default=f"docs/results/feeds-{datetime.date.today()}.json")
    args = parser.parse_args()
    args.data, args.zoo, args.text = args.data.resolve(), args.zoo.resolve(), args.text.resolve()
    args.binary, args.minilm = common.find_binary(args.binary), common.find_minilm(args.minilm)
    rows = []
    with tempfile.TemporaryDirectory(prefix="amp-feeds-", dir=args.work) as scratch:
        work = Path(scratch)
        args.binary = common.pinned(args.binary, work)
        report = {"machine": common.machine_facts(args.binary), "steps": args.steps, "threads": args.threads}
        report |= {"minilm": args.minilm.name, "feeds": rows}
        for case in feeds_cases.all_cases(args, work):
            if args.only and case.name not in args.only:
                continue
            rows.append(Feed(args, work, case).result())
            last = {k: v for k, v in rows[-1].items() if k in ("name", "rows", "equal", "largest_difference", "error")}
            print(json.dumps(last), flush=True)
            if args.work:
                shutil.copytree(work, args.work / "kept", dirs_exist_ok=True)
        common.write_json(args.out, report)
    print_table(rows)
    if not all(r["agrees"] for r in rows):
        raise SystemExit("a data set failed, or onnxruntime disagrees with the program")


if __name__ == "__main__":
    main()
