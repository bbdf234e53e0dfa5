"""Does mixed precision cost accuracy? Two jobs with several seeds in fp32, fp16 O1, fp16 O2, bf16
and auto: MiniLM on tweets (the job of the quickstart and of bench/accuracy.py) and LeNet on
Fashion-MNIST. The mean of each precision must lie between the minimum and maximum of the fp32
runs; exits with 1 if not. Writes JSON, docs/convergence.md and docs/convergence.svg.

LeNet starts from new random weights for every seed, with PyTorch's initial distribution (uniform
within 1 / sqrt(fan in)). MiniLM starts from the file with a random head that the program makes from
the seed. --add FILE keeps those runs of an earlier report that are not repeated.
"""

import argparse
import gzip
import json
from pathlib import Path

import accuracy
import common
import numpy as np

PRECISIONS = {
    "fp32": [],
    "fp16 O1": ["--use_fp16"],
    "fp16 O2": ["--use_fp16", "--amp_level", "O2"],
    "bf16": ["--use_bf16"],
    "auto": ["--use_fp16", "--amp_level", "auto"],
}
LENET = {"batch_size": 64, "lr": 2e-3, "epochs": 3, "weight_decay": 0.01, "max_grad_norm": 1, "warmup_steps": 0.1, "dropout": 0}


def idx(path):
    """Reads an IDX file of unsigned bytes."""
    data = gzip.decompress(path.read_bytes())
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def fashion(folder, work, rows):
    """Normalizes pixels to mean 0 and deviation 1 (of the training images) and writes the files for --train and --val."""
    from safetensors.numpy import save_file

    files = {}
    for name, stem, limit in (("train", "train", rows), ("val", "t10k", 10000)):
        x = idx(folder / f"{stem}-images-idx3-ubyte.gz")[:limit].astype(np.float32)[:, None] / 255
        y = idx(folder / f"{stem}-labels-idx1-ubyte.gz")[:limit].astype(np.int64)
        files[name] = work / f"{name}.safetensors"
        save_file({"input": (x - 0.2860) / 0.3530, "label": y}, str(files[name]))
    return files


def drawn(model, seed, path):
    """Returns the model with new random weights."""
    import onnx
    from onnx import numpy_helper

    m, rng, bound = onnx.load(model), np.random.default_rng(seed), 1.0
    for t in m.graph.initializer:
        w = numpy_helper.to_array(t)
        if w.dtype != np.float32 or w.size < 2:
            continue
        if w.ndim > 1:  # the weight's bias follows it and has the same bound
            bound = 1 / np.sqrt(np.prod(w.shape[1:]))
        t.CopyFrom(numpy_helper.from_array(rng.uniform(-bound, bound, w.shape).astype(np.float32), t.name))
    onnx.save(m, str(path))
    return path


def train(args, model, job, precision, seed, more, work):
    run = work / "run"
    flags = [f"--{k}={v}" for k, v in job.items()]
    common.run_ours(args.binary, model, *flags, *PRECISIONS[precision], *more, "--seed", seed, "--output_dir", run, "--overwrite", "--quiet")
    r = json.loads((run / "run.json").read_text())
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    width = max(1, len(losses) // 60)
    curve = [float(np.mean([x for x in losses[i : i + width] if x is not None])) for i in range(0, len(losses) - width + 1, width)]
    return {
        "seed": seed,
        "accuracy": r["final_metrics"]["accuracy"],
        "loss": r["final_metrics"]["loss"],
        "steps": r["steps"]["attempted"],
        "skipped_steps": r["steps"]["skipped"],
        "seconds": r["timing"]["train_seconds"],
        "curve": curve,
        "curve_steps": width,
    }


def minilm(args, precision, seed, work):
    more = ["--train", common.TWEETS / "train.csv", "--val", common.TWEETS / "dev.csv", "--vocab", common.TWEETS / "vocab.txt",
            "--text_columns", "text", "--label_column", "sentiment", "--max_seq_len", common.MAX_LEN, "--pad_to_multiple", common.PAD_TO]  # fmt: skip
    return train(args, common.find_minilm(args.minilm), accuracy.JOB, precision, seed, more, work)


def lenet(args, precision, seed, work):
    if not (work / "train.safetensors").exists():
        fashion(args.fashion, work, args.rows)
    model = drawn(args.lenet, seed, work / f"lenet{seed}.onnx")
    more = ["--train", work / "train.safetensors", "--val", work / "val.safetensors", "--loss", "cross_entropy"]
    return train(args, model, LENET, precision, seed, more, work)


JOBS = {"LeNet, Fashion-MNIST": lenet, "MiniLM, tweets": minilm}


def judge(runs):
    """Returns, for each precision, the mean and whether it is in the range of the fp32 runs."""
    exact = [r["accuracy"] for r in runs["fp32"]]
    out = {}
    for name, group in runs.items():
        mean = float(np.mean([r["accuracy"] for r in group]))
        out[name] = {"mean": mean, "within": min(exact) - 1e-9 <= mean <= max(exact) + 1e-9}
    return out


def page(report):
    lines = [
        "# Convergence in 16 bits",
        "",
        *common.prose(
            "This page has the accuracy at the end of whole training runs in five precisions, with three seeds each. A precision passes if its mean accuracy is "
            "between those of the worst and the best fp32 run. `bench/convergence.py` makes the runs and writes this page."
        ),
        "",
        "![training loss by precision](convergence.svg)",
    ]
    unchanged = False
    for job, runs in report["runs"].items():
        seeds = [r["seed"] for r in runs["fp32"]]
        lines += ["", f"## {job}", "", "| | " + " | ".join(f"seed {s}" for s in seeds) + " | mean | within the range of fp32 | skipped steps |"]
        lines.append("|---|" + "---:|" * (len(seeds) + 1) + "---|---:|")
        for name, group in runs.items():
            verdict = report["verdicts"][job][name]
            exact = {r["seed"]: r["loss"] for r in runs["fp32"]} if name != "fp32" else {}
            same = [r["loss"] == exact.get(r["seed"]) for r in group]
            unchanged |= any(same)
            cells = " | ".join(f"{r['accuracy']:.4f}" + (" =" if s else "") for r, s in zip(group, same))
            skips = " ".join(str(r["skipped_steps"]) for r in group)
            lines.append(f"| {name} | {cells} | {verdict['mean']:.4f} | {'yes' if verdict['within'] else '**no**'} | {skips} |")
    settings = {name: ", ".join(f"{k} {v}" for k, v in job.items()) for name, job in (("LeNet", LENET), ("MiniLM", accuracy.JOB))}
    lines += ["", "## Settings", ""]
    lines += common.prose(
        f"LeNet: {settings['LeNet']}; {report['rows']:,} training images, 10,000 others for the accuracy; new random weights for each seed.", "* "
    )
    lines += common.prose(f"MiniLM: {settings['MiniLM']}; 8,000 tweets for training, 2,000 others for the accuracy.", "* ")
    lines += common.prose(
        "`O1` and `O2` are presets of the precision plan ([precision.md](precision.md#presets)). bf16 uses `O1`. `auto` is "
        "`--use_fp16 --amp_level auto`: calibration chooses the plan.",
        "* ",
    )
    if unchanged:
        lines += common.prose(
            "`=`: same loss as the fp32 run. Calibration kept every node in fp32, because no plan with 16-bit nodes was within its bound.", "* "
        )
    if report.get("added"):
        lines += common.prose(f"Rows without a curve are from {report['added']}, an earlier build on the same machine.", "* ")
    return "\n".join(lines) + "\n"


def draw(report, path):
    """Plots the training loss of the first seed with curves: one panel per job, one line per precision."""
    colours = {"fp32": "#222222", "fp16 O1": "#1f77b4", "fp16 O2": "#2ca02c", "bf16": "#d62728", "auto": "#9467bd"}
    dashes = {"fp32": "", "fp16 O1": "7 3", "fp16 O2": "3 3", "bf16": "9 3 2 3", "auto": "1 4"}
    w, h, left, top = 430, 260, 52, 34
    parts, x0 = [], 0
    for job, runs in report["runs"].items():
        curves = {n: next((r for r in g if r.get("curve")), None) for n, g in runs.items()}
        curves = {n: r for n, r in curves.items() if r}
        if not curves:
            continue
        every = [v for r in curves.values() for v in r["curve"]]
        low, high = min(every), max(every)
        steps = max(len(r["curve"]) * r["curve_steps"] for r in curves.values())
        px = lambda s: x0 + left + s / steps * (w - left - 14)  # noqa: E731
        py = lambda v: top + (high - v) / (high - low) * h  # noqa: E731
        parts.append(f'<text x="{x0 + left}" y="20" font-size="14">{job}: training loss</text>')
        parts.append(f'<rect x="{x0 + left}" y="{top}" width="{w - left - 14}" height="{h}" fill="none" stroke="#999"/>')
        for k in range(5):
            v = low + (high - low) * k / 4
            parts.append(f'<text x="{x0 + left - 5}" y="{py(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>')
            s = steps * k / 4
            parts.append(f'<text x="{px(s):.1f}" y="{top + h + 16}" text-anchor="middle">{s:.0f}</text>')
        parts.append(f'<text x="{x0 + (w + left) / 2}" y="{top + h + 32}" text-anchor="middle">step</text>')
        for k, (name, r) in enumerate(curves.items()):
            points = " ".join(f"{px((i + 0.5) * r['curve_steps']):.1f},{py(v):.1f}" for i, v in enumerate(r["curve"]))
            dash = f' stroke-dasharray="{dashes[name]}"' if dashes[name] else ""
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="1.6"{dash}/>')
            y = top + 18 + 16 * k
            parts.append(f'<line x1="{x0 + w - 120}" x2="{x0 + w - 92}" y1="{y - 4}" y2="{y - 4}" stroke="{colours[name]}" stroke-width="2"{dash}/>')
            parts.append(f'<text x="{x0 + w - 86}" y="{y}">{name}</text>')
        x0 += w + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{x0}" height="{top + h + 42}" font-family="sans-serif" font-size="11">'
    Path(path).write_text(head + f'<rect width="{x0}" height="{top + h + 42}" fill="white"/>' + "".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--minilm", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--lenet", type=Path, required=True, help="a LeNet with the input 'input' [N,1,28,28]: its weights are drawn anew")
    parser.add_argument("--fashion", type=Path, required=True, help="folder of the four IDX files of Fashion-MNIST, gzipped")
    parser.add_argument("--rows", type=int, default=20000, help="training images")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", nargs="+", choices=["lenet", "minilm"], default=["lenet", "minilm"])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--add", type=Path, help="JSON of bench/accuracy.py or of this script: its runs stand where none are made")
    parser.add_argument("--out", default=str(common.ROOT / "bench" / "results" / "convergence.json"))
    parser.add_argument("--page", type=Path, help="folder for convergence.md and convergence.svg")
    args = parser.parse_args()
    report = {"rows": args.rows, "seeds": args.seeds, "runs": {}}
    with common.scratch_dir() as scratch:
        work = Path(scratch)
        args.binary = common.pinned(common.find_binary(args.binary), work)
        report["machine"] = common.machine_facts(args.binary)
        for name, job in JOBS.items():
            if job.__name__ not in args.jobs:
                continue
            for precision in args.precisions:
                for seed in args.seeds:
                    r = job(args, precision, seed, work)
                    report["runs"].setdefault(name, {}).setdefault(precision, []).append(r)
                    print(name, precision, {k: v for k, v in r.items() if k != "curve"}, flush=True)
    if args.add:
        old = json.loads(args.add.read_text())
        if any(n.startswith("onnx-amp-finetune ") for n in old["runs"]):  # a result of bench/accuracy.py
            names = {"onnx-amp-finetune fp32": "fp32", "onnx-amp-finetune fp16": "fp16 O1", "onnx-amp-finetune bf16": "bf16"}
            old["runs"] = {"MiniLM, tweets": {names[n]: g for n, g in old["runs"].items() if n in names}}
            report["added"] = args.add.name
        for job, runs in old["runs"].items():
            mine = report["runs"].get(job, {})
            report["runs"][job] = {p: mine.get(p) or runs[p] for p in PRECISIONS if p in mine or p in runs}
    report["verdicts"] = {job: judge(runs) for job, runs in report["runs"].items() if "fp32" in runs}
    common.write_json(args.out, report)
    if args.page:
        (args.page / "convergence.md").write_text(page(report))
        draw(report, args.page / "convergence.svg")
    print(page(report))
    if not all(v["within"] for verdicts in report["verdicts"].values() for v in verdicts.values()):
        raise SystemExit("a precision's mean lies outside the fp32 seeds' spread")


if __name__ == "__main__":
    main()
