#!/usr/bin/env python3
"""Mutates small ONNX models and runs the program on each: it must end by itself with a documented
exit code.

  ninja -C build mutate_worker
  bench/mutate.py --worker build/mutate_worker --models ZOO --count 20000 --seed 1 --keep FOLDER

A model is a folder with model.onnx and batch.safetensors (its inputs, and label). The models with
the most kinds of operators are used. Each mutation runs one of these commands in turn: check,
predict, grad, one training step. Failures are a signal, more than --seconds of processor time, an
undocumented exit code, exit 1, or more than --memory_mb of resident memory in addition to the
file's size. Address space is limited to --address_mb. The same seed gives the same files: `--only
N` repeats one mutation.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import onnx

from mutations import graphs, mutate

VERBS = ["check", "train", "grad", "predict"]
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 75}


def seeds(folder, count, largest=70_000):
    """Returns models that store their data in the file. Each model is the one with the most operators that the models
    before it do not have."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        model, reference = os.path.join(path, "model.onnx"), os.path.join(path, "ref.json")
        if not os.path.exists(model) or os.path.getsize(model) > largest:
            continue
        proto = onnx.load(model, load_external_data=False)
        if any(t.external_data for t in proto.graph.initializer):
            continue
        loss = "cross_entropy"
        if os.path.exists(reference):
            with open(reference) as f:
                loss = json.load(f).get("loss_kind", loss)
        operators = {(n.domain, n.op_type) for g in graphs(proto) for n in g.node}
        found.append((name, model, os.path.join(path, "batch.safetensors"), loss, operators))
    chosen, seen = [], set()
    while found and len(chosen) < count:
        best = max(found, key=lambda m: len(m[4] - seen))
        found.remove(best)
        seen |= best[4]
        chosen.append(best[:4])
    return chosen


def command(verb, model, batch, loss, work):
    if verb == "check":
        return ["check", model]
    if verb == "predict":
        return ["predict", model, "--inputs", batch, "--out", os.path.join(work, "out.safetensors")]
    if verb == "grad":
        return ["grad", model, "--inputs", batch, "--loss", loss, "--out", os.path.join(work, "grad.safetensors")]
    return [model, "--train", batch, "--loss", loss, "--max_steps", "1", "--output_dir",
            os.path.join(work, "run"), "--overwrite", "--verify_export", "false", "--quiet"]


class Worker:
    """The program, forked for each command line (bench/mutate_worker.cc)."""

    def __init__(self, program, stderr, wall, address_mb):
        self.stderr = stderr
        self.process = subprocess.Popen([program, stderr, str(wall), str(address_mb)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, argv):
        """Returns the exit code (negative: signal), processor seconds, peak MB, and stderr."""
        self.process.stdin.write("\t".join(argv) + "\n")
        self.process.stdin.flush()
        status, seconds, memory = self.process.stdout.readline().split()
        with open(self.stderr, errors="replace") as f:
            return os.waitstatus_to_exitcode(int(status)), float(seconds), int(memory) / 1024, f.read()


def last_error(text):
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                pass
    return {}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--worker", required=True)
    a.add_argument("--models", required=True)
    a.add_argument("--model_count", type=int, default=25)
    a.add_argument("--count", type=int, default=20000)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--seconds", type=float, default=5)
    a.add_argument("--memory_mb", type=float, default=1024)
    a.add_argument("--address_mb", type=int, default=4096)
    a.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    a.add_argument("--keep", help="folder for the files that fail, with their commands")
    a.add_argument("--verbs", default=",".join(VERBS), help="commands, in turn")
    a.add_argument("--kinds", help="kinds of edits (bench/mutations.py), those of deep faults: reshaped,retyped,payload")
    a.add_argument("--only", type=int, help="make and run this mutation alone, and show what it says")
    args = a.parse_args()

    verbs = args.verbs.split(",")
    models = seeds(args.models, args.model_count)
    print(f"{len(models)} models: {', '.join(m[0] for m in models[:25])}")
    work = tempfile.mkdtemp(prefix="mutate_")
    os.environ.update(OMP_NUM_THREADS="1", GOMP_SPINCOUNT="0")
    worker = Worker(args.worker, os.path.join(work, "stderr"), int(12 * args.seconds), args.address_mb)
    data = {}
    for name, model, _, _ in models:
        with open(model, "rb") as f:
            data[name] = f.read()

    codes, ids, failures = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    own_checks = collections.Counter()  # internal checks that a node made fail: the file is refused, but late
    worst_seconds = worst_memory = total = 0
    indices = [args.only] if args.only is not None else range(args.first, args.first + args.count)
    start, done = time.monotonic(), 0
    for i in indices:
        if time.monotonic() - start > args.minutes * 60:
            break
        name, _, batch, loss = models[i % len(models)]
        verb = verbs[i // len(models) % len(verbs)]
        content, how = mutate(args.seed * 10**9 + i, data[name], args.kinds and args.kinds.split(","))
        path = os.path.join(work, "model.onnx")
        with open(path, "wb") as f:
            f.write(content)
        argv = command(verb, path, batch, loss, work)
        code, seconds, memory, text = worker.run(argv)
        done += 1
        total += seconds
        error = last_error(text)
        codes[code] += 1
        ids[(code, error.get("id", ""))] += 1
        worst_seconds, worst_memory = max(worst_seconds, seconds), max(worst_memory, memory)
        if "a check of this program failed" in error.get("error", ""):
            own_checks[re.sub(r"-?\d+", "#", error["error"])[:110]] += 1
        wrong = []
        if code < 0:
            wrong.append(f"signal {-code}")
        elif code not in DOCUMENTED:
            wrong.append(f"exit {code}")
        elif code and not error and verb != "check":  # `check` writes a report instead of an error
            wrong.append(f"exit {code} without its line of JSON")
        if seconds > args.seconds:
            wrong.append("seconds")
        if memory > args.memory_mb + len(content) / 2**20:
            wrong.append("memory")
        if args.only is not None:
            print(f"{name} {verb} {how}: exit {code}, {seconds:.1f} s, {memory:.0f} MB\n{' '.join(argv)}\n{text}")
            return 0
        if wrong:
            kind = " ".join(wrong) + ": " + re.sub(r"-?\d+", "#", str(error.get("error", text[-200:])))[:110]
            failures[kind].append(i)
            if args.keep and len(failures[kind]) <= 3:
                os.makedirs(args.keep, exist_ok=True)
                stem = os.path.join(args.keep, f"{args.seed}_{i}")
                with open(stem + ".onnx", "wb") as f:
                    f.write(content)
                with open(stem + ".txt", "w") as f:
                    f.write(f"{name} {verb} {how}: {wrong}, exit {code}, {seconds:.1f} s, {memory:.0f} MB\n"
                            + " ".join(argv).replace(path, stem + ".onnx") + "\n" + text)
    print(f"{done} mutations, seed {args.seed}: most {worst_seconds:.1f} s, {worst_memory:.0f} MB; "
          f"{total / max(done, 1):.3f} s of processor each, {done / (time.monotonic() - start):.0f} a second")
    print("exit codes: " + ", ".join(f"{c}: {n}" for c, n in sorted(codes.items())))
    print("errors: " + ", ".join(f"{c} {i}: {n}" for (c, i), n in sorted(ids.items()) if i))
    for kind, n in own_checks.most_common(20):
        print(f"refused late {n} x {kind}")
    for kind, where in sorted(failures.items(), key=lambda f: -len(f[1])):
        print(f"FAILED {len(where)} x {kind}   mutations {where[:3]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
