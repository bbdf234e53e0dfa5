"""Runs the program on one model of the corpus of unprepared models and compares with PyTorch: which
tensors are weights, the loss, the gradients, and the losses of ten steps.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import common
import numpy as np
import unprepared_truth as truths
from safetensors.numpy import load_file
from zoo import largest, run_reference, worst_ratio

LOSS = 1e-6
GRADIENT = 1e-5
STEPS = 1e-4  # relative to the first loss


class Failed(RuntimeError):
    def __init__(self, verb, code, text):
        super().__init__(f"{verb}: exit {code}: {text}")
        self.verb, self.code = verb, code


class Entry:
    def __init__(self, binary, folder, scratch):
        self.binary, self.scratch, self.name = binary, scratch, folder.name
        self.model, self.batch = folder / "model.onnx", folder / "batch.safetensors"
        self.ref = json.loads((folder / "ref.json").read_text())
        self.tensors = load_file(folder / "ref.safetensors")
        self.truth = {t["name"]: t for t in self.ref["tensors"]}
        self.row = {"entry": self.name, "architecture": self.ref["architecture"], "half": self.ref["half"]}

    def run(self, *args, accept=(0,)):
        try:
            done = subprocess.run([str(self.binary), *map(str, args)], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired as error:
            raise Failed(args[0], "none", "longer than 120 s") from error
        if done.returncode not in accept:
            lines = [x for x in done.stderr.strip().splitlines() if "error" in x] or done.stderr.strip().splitlines()
            raise Failed("train" if "--train" in args else args[0], done.returncode, lines[0][:240] if lines else "")
        return done.stdout

    def check(self):
        """Compares the tensors that the program trains with their truth."""
        report = json.loads(self.run("check", self.model, "--json", accept=(0, 4)))
        self.parameters = {p["name"]: p for p in report["parameters"]}
        self.trained = {n for n, p in self.parameters.items() if p["trainable"]}
        self.row["trains"] = report["trains"]
        reached = {p["torch"] for p in self.ref["params"] if p["grad"] == "ok" and p["grad_max"] > 0}
        counts = {"tensors": 0, "weights": 0, "folded": 0, "gathered": 0, "constants": 0, "folded_trained": 0, "gathered_trained": 0}
        missed, wrong = [], []
        for name, t in self.truth.items():
            if not t["live"]:
                continue
            counts["tensors"] += 1
            kind = t["truth"]
            if kind in truths.PARAMETER:
                counts["weights"] += 1
                if name not in self.trained and reached.intersection(t["torch"]):
                    missed.append(name)
            elif kind in truths.EITHER:
                counts[kind] += 1
                counts[kind + "_trained"] += name in self.trained
            else:
                counts["constants"] += 1
                if name in self.trained:
                    wrong.append(name)
        self.row.update(counts, missed=missed, wrong=wrong)

    def gradients(self):
        out = self.scratch / "grads.safetensors"
        text = self.run("grad", self.model, "--inputs", self.batch, "--loss", "mse", "--out", out)
        loss = json.loads(text.strip().splitlines()[-1])["loss"]
        want, exact = self.ref["loss"], self.ref["loss_fp64"]
        self.row["loss_error"] = abs(loss - want) / max(abs(want), 1e-30)
        self.row["loss_ratio"] = abs(loss - want) / max(LOSS * abs(want), 10 * abs(want - exact), 1e-30)
        if self.row["loss_ratio"] > 1:
            self.row["loss_engine_error"] = self.engine_loss_error(loss)
        self.compare_gradients(load_file(out))

    def engine_loss_error(self, loss):
        """Returns the distance of the loss from the file's loss in an inference engine; small if the exporter is at
        fault."""
        feeds = load_file(self.batch)
        try:
            runner, out = run_reference(self.model, feeds)
        except RuntimeError as error:
            return str(error)
        theirs = np.mean((np.asarray(next(iter(out.values())), np.float64) - feeds["label"]) ** 2)
        return f"{abs(loss - theirs) / max(abs(theirs), 1e-30):.1e} from {runner}'s"

    def compare_gradients(self, got):
        """Compares gradients. The gradients of the file's tensors are first added up to gradients of PyTorch's
        parameters, by the origin of their elements."""
        total = self.ref["n_params"]
        mine, covered = np.zeros(total), np.zeros(total, bool)
        folded = set()
        for name, p in self.parameters.items():
            index = self.tensors.get("map/" + name)
            if index is None or p["tied_to"] is not None or not p["trainable"]:
                continue
            index = index.reshape(-1)
            kept = index >= 0
            covered[index[kept]] = True
            if name in got:
                np.add.at(mine, index[kept], got[name].astype(np.float64).reshape(-1)[kept])
        for t in self.ref["tensors"]:
            if t["truth"] == "folded":
                folded.update(t.get("torch", []))
        worst, compared, bad, whole = 0.0, 0, [], 0
        for p in self.ref["params"]:
            want = self.tensors.get("grad/" + p["torch"])
            if want is None:
                continue
            part = slice(p["offset"], p["offset"] + want.size)
            seen, want = covered[part], want.reshape(-1)
            whole += bool(np.any(want))
            if not seen.any() or p["torch"] in folded:
                continue
            compared += 1
            tolerance = max(GRADIENT, 10 * min(p["fp32_noise"], 1e-2)) * largest(want) + 1e-7 * self.scale()
            if largest(want) < 1e-3 * p["grad_max"]:  # zero in exact arithmetic (a bias before a norm): PyTorch's fp32 one is rounding
                tolerance = 10 * p["grad_max"] + 1e-7 * self.scale()
            ratio = worst_ratio(mine[part][seen], want[seen], tolerance)
            worst = max(worst, ratio)
            if not ratio <= 1:
                bad.append({"torch": p["torch"], "ratio": ratio, "frozen": p["torch"] in self.ref["frozen"], "noise": p["fp32_noise"]})
        self.row.update(gradients=worst, gradients_compared=compared, gradients_all=whole, gradients_bad=bad)

    def scale(self):
        """Returns the largest gradient. A difference of 1e-7 of it is rounding."""
        return max([p["grad_max"] for p in self.ref["params"] if p["grad"] == "ok"] + [0.0])

    def freeze_flags(self):
        """Returns flags for parameters that PyTorch's trajectories also keep fixed: those that the file stores in
        another form than PyTorch, and those that PyTorch uses under torch.no_grad() or after detach(), which no file
        records."""
        flags, frozen = [], set(self.ref["frozen"]).union(p["torch"] for p in self.ref["params"] if p["grad"] == "none")
        for name in sorted(self.trained):
            t = self.truth.get(name)
            if t and (t["truth"] in truths.EITHER or t["truth"] in truths.PARAMETER and frozen.issuperset(t["torch"])):
                flags += ["--freeze", name]
        return flags

    def trajectory(self, kind):
        want = self.ref["trajectories"][kind]
        if want["losses"] is None:
            self.row[kind] = None
            return
        flags = ["--dropout", 0]
        if kind != "default":
            flags += ["--lr", want["lr"], "--weight_decay", want["weight_decay"], "--decay_exclude", "none", "--lr_scheduler", "constant", "--max_grad_norm", 0]
            flags += ["--optimizer", kind] + (["--momentum", want["momentum"]] if kind == "sgd" else [])
        out = self.scratch / kind
        self.run(
            self.model, "--train", self.batch, "--loss", "mse", "--max_steps", len(want["losses"]), "--batch_size", 4096, "--shuffle", "false",
            "--output_dir", out, "--overwrite", "--quiet", *flags, *self.freeze_flags(),
        )  # fmt: skip
        losses = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
        if len(losses) != len(want["losses"]):
            self.row[kind] = float("inf")
            return
        worst = 0.0
        for got, a, b in zip(losses, want["losses"], want["losses_fp64"]):
            if got is None or not np.isfinite([got, a, b]).all():
                worst = max(worst, 0.0 if got is None and not np.isfinite(a) else float("inf"))
                continue
            worst = max(worst, abs(got - a) / max(STEPS * want["losses"][0], 10 * abs(a - b)))
        self.row[kind] = worst

    def result(self):
        steps = [self.check, self.gradients, *(lambda k=k: self.trajectory(k) for k in ("sgd", "adamw", "default"))]
        for step in steps:
            try:
                step()
            except Failed as error:
                self.row["error"], self.row["error_code"] = str(error), error.code
                break
        self.row["frozen"] = len(self.ref["frozen"])
        return self.row


def main(args):
    index = json.loads((args.corpus / "index.json").read_text())
    path = args.corpus / "compared.json"
    done = {} if args.again or not path.exists() else {r["entry"]: r for r in json.loads(path.read_text())}
    with tempfile.TemporaryDirectory(prefix="amp-unprepared-") as scratch:
        binary = common.pinned(common.find_binary(args.binary), scratch)
        for e in index:
            if e["state"] != "ok" or args.only and e["folder"] not in args.only or e["folder"] in done and not args.only:
                continue
            folder = args.corpus / e["folder"]
            try:
                done[e["folder"]] = Entry(binary, folder, Path(scratch)).result()
            except (KeyError, ValueError, FileNotFoundError) as error:
                done[e["folder"]] = {"entry": e["folder"], "error": f"{type(error).__name__}: {error}"}
            common.write_json(path, [done[k] for k in sorted(done)])
