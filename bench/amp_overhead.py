"""Measures the overhead of --use_fp16 if the precision plan keeps everything in fp32 (an op list that denies all
operators). Runs of the program with and without the flag alternate, with the same batches and steps. There are no casts
and the loss scale is 1, so only the plan and the checks can cost time. --instructions counts with valgrind the share of
the finite check (one pass, together with the gradient norm) in a step of both. Writes JSON, prints Markdown.
"""

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

import cases
import common

DENY = {"version": 1, "extends": "none", "propagation": "paint", "deny": ["*"]}


def command(args, case, flags, out, steps):
    return [str(x) for x in (args.binary, case["model"], *case["flags"], *flags, "--batch_size", case["batch"], "--no_shuffle",
                             "--epochs", 1, "--max_steps", steps, "--threads", args.threads, "--no_verify_export",
                             "--output_dir", out, "--overwrite", "--quiet")]  # fmt: skip


def seconds(args, case, flags, out):
    common.run_ours(*command(args, case, flags, out, len(case["rows"])))
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [r / line["samples_per_s"] for r, line in zip(case["rows"], lines)][case["warm"] :]


def instructions(args, case, flags, folder):
    """Returns the instructions of a step and of its finite check, as the difference of a longer and a shorter run. Runs
    use one thread and AVX2 (the most that valgrind supports)."""
    total, check = {}, {}
    few, many = case["warm"], min(len(case["rows"]), case["warm"] + args.counted)
    for steps in (few, many):
        trace = folder / "callgrind.out"
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={trace}", *command(args, case, flags, folder / "run", steps)]
        words[words.index("--threads") + 1] = "1"
        env = os.environ | {"GOMP_SPINCOUNT": "1000", "ONNX_AMP_MAX_ISA": "v3"}
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
        total[steps] = int(re.search(r"Collected : (\d+)", done.stderr)[1])
        listing = subprocess.run(["callgrind_annotate", "--threshold=100", trace], capture_output=True, text=True, check=True).stdout
        found = [line for line in listing.splitlines() if "kernel::inspect" in line]
        check[steps] = sum(int(line.split()[0].replace(",", "")) for line in found)
    return {"step": (total[many] - total[few]) / (many - few), "check": (check[many] - check[few]) / (many - few)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="default: build/onnx-amp-finetune")
    parser.add_argument("--minilm", help="the ONNX file; default: what cmake/fetch_minilm.sh fetches")
    parser.add_argument("--cases", nargs="+", choices=["lenet", "minilm"], default=["lenet", "minilm"])
    parser.add_argument("--steps", type=int, default=0, help="counted steps of a block; 0: 300 for LeNet, 40 for MiniLM")
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--instructions", action="store_true", help="count instructions too (needs valgrind; slow)")
    parser.add_argument("--counted", type=int, default=10, help="steps that instructions are counted over")
    parser.add_argument("--out", default=str(common.ROOT / "bench" / "results" / "amp_overhead.json"))
    args = parser.parse_args()
    report = {"cases": {}}
    with common.scratch_dir() as scratch:
        root = Path(scratch)
        args.binary = common.pinned(common.find_binary(args.binary), root)
        report["machine"] = common.machine_facts(args.binary)
        (root / "deny.json").write_text(json.dumps(DENY))
        arms = {"fp32": [], "all-deny": ["--use_fp16", "--precision_plan", root / "deny.json"]}
        for name in args.cases:
            folder = root / name
            folder.mkdir()
            case = cases.prepare(name, folder, args.steps, common.find_minilm(args.minilm) if name == "minilm" else None)
            times = {arm: [] for arm in arms}
            for k in range(args.blocks):
                for arm in list(arms)[:: 1 if k % 2 == 0 else -1]:
                    times[arm].append(seconds(args, case, arms[arm], folder / "run"))
            # The minimum of each step over the blocks (same batch), which excludes the load of other processes.
            least = {arm: sum(map(min, zip(*blocks))) / len(blocks[0]) for arm, blocks in times.items()}
            medians = {arm: [common.summary(b)["median"] for b in blocks] for arm, blocks in times.items()}
            entry = {
                "least_ms": {arm: 1e3 * v for arm, v in least.items()},
                "ratio_of_least": least["all-deny"] / least["fp32"],
                "ratio_of_medians": common.summary([a / b for a, b in zip(medians["all-deny"], medians["fp32"])]),
            }
            if args.instructions:
                entry["instructions"] = {arm: instructions(args, case, flags, folder) for arm, flags in arms.items()}
            report["cases"][name] = entry
            r = entry["ratio_of_medians"]
            print(f"{name}: ratio of least times {entry['ratio_of_least']:.4f}; of medians {r['median']:.4f} ({min(r['values']):.3f} - {max(r['values']):.3f})")
            for arm, n in entry.get("instructions", {}).items():
                print(f"  {arm}: {n['step']:.3e} instructions a step, finite check and norm {100 * n['check'] / n['step']:.2f} %")
    report["load_average_after"] = os.getloadavg()
    common.write_json(args.out, report)


if __name__ == "__main__":
    main()
