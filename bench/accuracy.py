"""Does mixed precision cost accuracy? Runs the quickstart's job in PyTorch fp32 and with the
program in fp32, fp16 and bf16, with several seeds each. onnxruntime then runs the exported files
and must agree with the program.

Exits with 1 if onnxruntime disagrees. The other results are a table for the reader.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

import common

JOB = {
    "batch_size": 32,
    "lr": 1e-4,
    "warmup_steps": 0.1,
    "weight_decay": 0.01,
    "epochs": 1,
    "max_grad_norm": 1,
    "dropout": 0,
}
PRECISIONS = {"fp32": [], "fp16": ["--use_fp16"], "bf16": ["--use_bf16"]}
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}  # names of the types in run.json
LOGIT_LIMIT = {"fp32": 1e-4, "fp16": 2e-2}  # largest difference from `predict` in fp32
SAME = 0.0005  # limit for an fp32 run and its fp32 file: one tweet of 2,000 may differ because of a tie
CLOSE = 0.005  # the same limit if the run, its file or both use 16 bits


class Job:
    """The data of the run, which are read and tokenized once."""

    def __init__(self, args, work):
        self.args = args
        self.train = common.read_tweets(common.TWEETS / "train.csv", args.rows)
        self.dev = common.read_tweets(common.TWEETS / "dev.csv", args.rows)
        self.files = {"train": work / "train.csv", "dev": work / "dev.csv"}
        common.write_tweets(self.files["train"], self.train)
        common.write_tweets(self.files["dev"], self.dev)
        self.labels = sorted({label for _, label in self.train})
        self.train_ids = common.tokenize([t for t, _ in self.train])
        self.dev_ids = common.tokenize([t for t, _ in self.dev])
        self.train_y = np.array([self.labels.index(label) for _, label in self.train])
        self.dev_y = np.array([self.labels.index(label) for _, label in self.dev])

    def dev_batches(self, size=64):
        """Yields (rows, ids, mask) per batch. Rows of similar length are in the same batch."""
        order = np.argsort([len(t) for t in self.dev_ids], kind="stable")
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield rows, *common.pad([self.dev_ids[i] for i in rows])

    def accuracy(self, logits_of):
        hits = sum(
            int((logits_of(ids, mask).argmax(1) == self.dev_y[rows]).sum()) for rows, ids, mask in self.dev_batches()
        )
        return hits / len(self.dev_y)


def torch_run(job, seed):
    import torch

    import torch_minilm

    torch.manual_seed(seed)
    torch.set_num_threads(job.args.threads)
    model = torch_minilm.load(job.args.binary, job.args.model, len(job.labels), seed)
    batches = common.grouped_batches([len(t) for t in job.train_ids], JOB["batch_size"], np.random.default_rng(seed))
    optimizer = torch_minilm.adamw(model, JOB["lr"], JOB["weight_decay"])
    schedule = torch_minilm.linear_schedule(optimizer, JOB["warmup_steps"], len(batches))
    started = time.monotonic()
    model.train()
    for rows in batches:
        ids, mask = common.pad([job.train_ids[i] for i in rows])
        logits = model(torch.from_numpy(ids), torch.from_numpy(mask))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(job.train_y[rows]))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), JOB["max_grad_norm"])
        optimizer.step()
        schedule.step()
    seconds = time.monotonic() - started
    model.eval()

    def logits_of(ids, mask):
        with torch.no_grad():
            return model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    return {"seed": seed, "accuracy": job.accuracy(logits_of), "seconds": seconds}


def our_run(job, seed, precision, directory):
    flags = [f"--{k}={v}" for k, v in JOB.items()]
    common.run_ours(
        job.args.binary,
        job.args.model,
        *flags,
        *PRECISIONS[precision],
        "--train",
        job.files["train"],
        "--val",
        job.files["dev"],
        "--vocab",
        common.TWEETS / "vocab.txt",
        "--text_columns",
        "text",
        "--label_column",
        "sentiment",
        "--max_seq_len",
        common.MAX_LEN,
        "--pad_to_multiple",
        common.PAD_TO,
        "--seed",
        seed,
        "--threads",
        job.args.threads,
        "--output_dir",
        directory,
        "--overwrite",
        "--quiet",
    )
    run = json.loads((directory / "run.json").read_text())
    steps = math.ceil(len(job.train) / JOB["batch_size"])
    if run["steps"]["attempted"] != steps or run["labels"] != job.labels:
        raise SystemExit(
            f"the program ran {run['steps']} on labels {run['labels']}, PyTorch {steps} steps on {job.labels}"
        )
    if run["precision"]["dtype"] != DTYPES[precision]:
        raise SystemExit(f"asked for {precision}, the program ran in {run['precision']['dtype']}")
    return {
        "seed": seed,
        "accuracy": run["final_metrics"]["accuracy"],
        "loss": run["final_metrics"]["loss"],
        "before": run["initial_metrics"]["accuracy"],
        "skipped_steps": run["steps"]["skipped"],
        "seconds": run["timing"]["train_seconds"],
    }


def check_export(job, run_dir, work, precision, reported):
    """Runs the exported file in onnxruntime, in fp32 and fp16: the accuracy must be the reported one, and the logits
    those of `predict`."""
    import onnxruntime
    from safetensors.numpy import load_file, save_file

    half = work / "half.onnx"
    common.run_ours(job.args.binary, "export", run_dir / "model.onnx", "--out", half, "--export_precision", "fp16")
    result = {}
    for name, path in {"fp32": run_dir / "model.onnx", "fp16": half}.items():
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        logits_of = lambda ids, mask: session.run(["logits"], {"input_ids": ids, "attention_mask": mask})[0]
        accuracy = job.accuracy(logits_of)
        batches = list(job.dev_batches())
        worst = 0.0
        for _, ids, mask in batches[:: max(1, len(batches) // 6)]:
            save_file({"input_ids": ids, "attention_mask": mask}, str(work / "batch.safetensors"))
            common.run_ours(
                job.args.binary,
                "predict",
                path,
                "--inputs",
                work / "batch.safetensors",
                "--out",
                work / "out.safetensors",
            )
            ours = load_file(str(work / "out.safetensors"))["logits"].astype(np.float64)
            worst = max(worst, float(np.abs(ours - logits_of(ids, mask).astype(np.float64)).max()))
        allowed = max(SAME if precision == name == "fp32" else CLOSE, 1 / len(job.dev_y)) + 1e-9
        agrees = worst <= LOGIT_LIMIT[name] and abs(accuracy - reported) <= allowed
        result[name] = {
            "accuracy": accuracy,
            "run_json": reported,
            "largest_logit_difference": worst,
            "limit": LOGIT_LIMIT[name],
            "bytes": path.stat().st_size,
            "agrees": agrees,
        }
    return result


def print_tables(report):
    seeds = report["seeds"]
    print(f"\nDev accuracy, {report['rows']['train']} tweets, one epoch\n")
    print("| | " + " | ".join(f"seed {s}" for s in seeds) + " | mean | seconds |")
    print("|---|" + "---:|" * (len(seeds) + 2))
    for name, runs in report["runs"].items():
        cells = " | ".join(f"{r['accuracy']:.4f}" for r in runs)
        print(f"| {name} | {cells} | {report['means'][name]:.4f} | {np.median([r['seconds'] for r in runs]):.0f} |")
    for source, files in report["onnxruntime"].items():
        print(
            f"\nExported from {source} and run by onnxruntime\n\n"
            "| file | accuracy | as reported by the run | logits differ by at most | |"
        )
        print("|---|---:|---:|---:|---|")
        for name, r in files.items():
            verdict = "agrees" if r["agrees"] else "DISAGREES"
            print(
                f"| {name} | {r['accuracy']:.4f} | {r['run_json']:.4f} "
                f"| {r['largest_logit_difference']:.1e} | {verdict} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--model", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument(
        "--rows", type=int, default=0, help="only the first N rows of either file (a smoke test); 0: all"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip_torch", action="store_true")
    parser.add_argument("--out", default=str(common.ROOT / "bench" / "results" / "accuracy.json"))
    args = parser.parse_args()
    args.binary, args.model = common.find_binary(args.binary), common.find_minilm(args.model)

    report = {"job": JOB, "seeds": args.seeds, "runs": {}, "onnxruntime": {}}
    with common.scratch_dir() as scratch:
        work = Path(scratch)
        args.binary = common.pinned(args.binary, work)
        report["machine"] = common.machine_facts(args.binary)
        job = Job(args, work)
        report["rows"] = {"train": len(job.train), "dev": len(job.dev)}
        for precision in args.precisions:
            runs = report["runs"][f"onnx-amp-finetune {precision}"] = []
            for seed in args.seeds:
                runs.append(our_run(job, seed, precision, work / "run"))
                print(precision, runs[-1], flush=True)
                if seed == args.seeds[0] and precision in ("fp32", "fp16"):
                    source = f"the {precision} run of seed {seed}"
                    report["onnxruntime"][source] = check_export(
                        job, work / "run", work, precision, runs[-1]["accuracy"]
                    )
        if not args.skip_torch:
            runs = report["runs"]["PyTorch fp32"] = []
            for seed in args.seeds:
                runs.append(torch_run(job, seed))
                print("torch", runs[-1], flush=True)
    report["means"] = {name: float(np.mean([r["accuracy"] for r in runs])) for name, runs in report["runs"].items()}
    common.write_json(args.out, report)
    print_tables(report)
    if not all(r["agrees"] for files in report["onnxruntime"].values() for r in files.values()):
        raise SystemExit("onnxruntime disagrees with the program")


if __name__ == "__main__":
    main()
