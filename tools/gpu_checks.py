"""The checks of tools/gpu_check.py, in order of worth. A check is a function of the kit that returns (outcome, text): ok, failed,
skipped (there is nothing to run it on) or unfinished."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import gpu_report

PARTS = ("sanitize", "correctness", "train", "kernels", "bench")
CASES = ("bert_b32", "tweets", "unet", "bert_b128", "minilm", "lenet", "mlp")


@dataclass
class Check:
    part: str
    name: str
    needs: float  # seconds that must be left to begin it
    work: Callable

    @property
    def key(self):
        return f"{self.part} {self.name}"


def one_line(text, lines=3):
    return " ".join(text.strip().splitlines()[-lines:])[-600:]


def verdict(status, text):
    """Of a run of test_cuda: it must run tests, and skip none."""
    last = re.findall(r"^(?:test cases|All tests).*$", text, re.M)
    said = last[-1] if last else "it did not end"
    if status == 0 and last and "SKIPPED" not in text:
        return "ok", said
    why = re.search(r"^.*(?:SKIPPED|FAILED|ERROR SUMMARY: [1-9]).*(?:\n.*){0,3}", text, re.M)
    print(text[-4000:])
    return "failed", f"exit {status}; {said}; {one_line(why.group(0), 4) if why else one_line(text)}"


# --- correctness ----------------------------------------------------------------------------------------------------

# name, test case, what it is rehearsed with in the emulator, seconds at most
TESTS = [
    ("kernels", "GPU: kernels agree with the CPU's", "softmax of rows that a warp*", 240),
    ("update", "GPU: the update is the CPU's", "the device's update is the CPU's", 60),
    ("zoo", "GPU: models agree with PyTorch", "the host may run ahead of the device's reports*", 120),
    ("repeats", "GPU: the same bits in every run and without CUDA graphs", "a capture that fails is given up*", 120),
    ("memory", "GPU: memory comes back", "a capture that succeeds is a recording", 30),
]


def test(args, case, rehearsal, limit):
    def work(kit):
        return verdict(*kit.run([kit.test_cuda, rehearsal if args.rehearse else case], limit))

    return work


def version(kit):
    status, text = kit.run([kit.program, "version"], 30)
    return ("ok" if status == 0 else "failed"), one_line(text, 1)


# --- sanitize -------------------------------------------------------------------------------------------------------

# Those first that copy asynchronously into shared memory; then what shares memory, sorts, scatters.
SANITIZED = ["FusedAttention", "FusedAttentionGrad"]
SANITIZED_LATER = ["AddNormGrad", "Softmax", "ScatterElementsAdd", "LayerNorm", "ReduceSum", "Transpose"]
REFUSES = r"(?i)device not supported|unsupported|not supported|insufficient permissions|unable to|failed to (?:initialize|attach)"


def find(*names):
    for name in names:
        found = shutil.which(name) or next((p for p in (f"/usr/local/cuda/bin/{name}",) if Path(p).exists()), None)
        if found:
            return found
    return None


def restriction(sanitizer):
    """Flags, as this version calls them: our process behind the wrapper; the project's kernels, not the libraries'."""
    help_ = subprocess.run([sanitizer, "--help"], capture_output=True, text=True, timeout=30).stdout
    flags = ["--target-processes", "all"] if "--target-processes" in help_ else []
    name = next((f for f in ("--kernel-name", "--filter") if f in help_), None)
    return flags + ([name, "kns=3amp4cuda"] if name else [])


def sanitized(tool, op):
    """No error may be found. Instrumented kernels are 20 to 50 times slower: what does not end is noted with what it found."""

    def work(kit):
        if kit.args.rehearse:
            return "skipped", "a rehearsal: there is no device to watch"
        sanitizer = find("compute-sanitizer")
        if not sanitizer:
            return "skipped", "there is no compute-sanitizer on this machine"
        words = [sanitizer, "--tool", tool, *restriction(sanitizer), "--error-exitcode", "9",
                 kit.test_cuda, "GPU: kernels agree with the CPU's", "-c", op]  # fmt: skip
        status, text = kit.run(words, 60)
        wrong = re.findall(r"^=+ (?:Error|Invalid|Misaligned|Race|Hazard|Out-of-range|Program hit).*|^=+ .*(?:Invalid __|Potential|hazard).*", text, re.M)
        if wrong and not re.search(REFUSES, wrong[0]):
            print("\n".join(wrong[:40]))
            return "failed", f"{len(wrong)} lines of errors; {wrong[0]}"
        if re.search(REFUSES, text):
            return "skipped", f"the sanitizer does not run here: {one_line(re.search('.*(?:' + REFUSES[4:] + ').*', text, re.I).group(0))}"
        if status == 124:
            return "ok", "no error in its 60 s; it did not end"
        return verdict(status, text)

    return work


# --- train ----------------------------------------------------------------------------------------------------------


def finetune(kit, entry, device, precision, folder):
    zoo = f"tests/data/zoo/{entry}"
    words = [kit.program, f"{zoo}/model.onnx", "--train", f"{zoo}/batch.safetensors", "--loss", "cross_entropy", "--device", device,
             "--no_shuffle", "--epochs", 200, "--max_steps", 200, "--lr", "1e-3", "--weight_decay", 0.01, "--dropout", 0,
             "--output_dir", folder, "--overwrite", "--quiet"]  # fmt: skip
    return kit.run(words + ([] if precision == "fp32" else [f"--use_{precision}"]), 60)


def trained(args, entry, precision):
    """The losses of a run on the CPU beside one on the GPU; a second one there leaves the same bytes."""

    def work(kit):
        gpu = "cpu" if args.rehearse else "cuda"
        folders = [kit.work / f"{entry}-{precision}-{n}" for n in ("cpu", "gpu", "again")]
        for folder, device in zip(folders, ("cpu", gpu, gpu)):
            status, text = finetune(kit, entry, device, precision, folder)
            if status != 0:
                return "failed", one_line(text)
        agree, said = gpu_report.curves(folders[0] / "metrics.jsonl", folders[1] / "metrics.jsonl", precision)
        if not agree:
            return "failed", said
        if (folders[1] / "model.onnx").read_bytes() != (folders[2] / "model.onnx").read_bytes():
            return "failed", f"model.onnx differs between two runs; {said}"
        return "ok", f"{said}; model.onnx twice the same bytes"

    return work


# --- kernels and bench ----------------------------------------------------------------------------------------------


def without_torch():
    try:
        import torch  # noqa: F401

        return None
    except ImportError as e:
        return "skipped", f"Python here has no torch: {e}"


def kernel_times(args, case, dropout):
    def work(kit):
        missing = without_torch()
        if missing:
            return missing
        out = kit.state / f"kernels-{case}-{dropout}.json"
        words = [sys.executable, "bench/gpu_kernels.py", "--binary", kit.program, "--case", case, "--dropout", dropout, "--out", out,
                 "--device", "cpu" if args.rehearse else "cuda"] + (["--tiny"] if args.rehearse else [])  # fmt: skip
        status, text = kit.run(words, 150)
        return ("ok", one_line(text, 1)) if status == 0 else ("failed", f"exit {status}; {one_line(text)}")

    return work


# What a first hour has time for: against PyTorch's likely best, in 16 bits.
FIRST = ["--precisions", "bf16", "--modes", "eager", "reduce-overhead", "--sdpa", "flash", "cudnn", "--blocks", 3]
REHEARSAL = ["--tiny", "--device", "cpu", "--precisions", "bf16", "--modes", "eager", "--sdpa", "flash", "--blocks", 2, "--warm", 2]


def benched(args, case):
    def work(kit):
        missing = without_torch()
        if missing:
            return missing
        out = kit.state / f"bench-{case}.json"
        words = [sys.executable, "bench/gpu.py", "--binary", kit.program, "--program", kit.program_file, "--cases", case, "--out", out,
                 "--seconds", int(kit.left() - 25), *(REHEARSAL if args.rehearse else FIRST)]  # fmt: skip
        status, text = kit.run(words, kit.left() - 3)
        if kit.table.strip():
            (kit.state / f"bench-{case}.md").write_text(kit.table)
        print(kit.table)
        if status == 0:
            return "ok", "losses agree with PyTorch's"
        if status in (75, 124):
            return "unfinished", "time is up: call it again"
        return "failed", f"exit {status}; {one_line(text)}"

    return work


def in_order(args):
    checks = [Check("correctness", "version", 5, version)]
    checks += [Check("sanitize", f"memcheck {op}", 40, sanitized("memcheck", op)) for op in SANITIZED]
    checks += [Check("correctness", n, min(60, limit), test(args, case, rehearsal, limit)) for n, case, rehearsal, limit in TESTS]
    entries = ["bert_cls_eager_ts14", "lenet_relu_dyn18"]
    checks += [Check("train", f"{e} {p}", 30, trained(args, e, p)) for p in ("bf16", "fp16", "fp32") for e in entries]
    checks += [Check("kernels", f"bert_b32 dropout {d}", 60, kernel_times(args, "bert_b32", d)) for d in (0, 0.1)]
    checks += [Check("bench", case, 60, benched(args, case)) for case in CASES]
    checks += [Check("sanitize", f"racecheck {op}", 40, sanitized("racecheck", op)) for op in SANITIZED]
    checks += [Check("sanitize", f"{t} {op}", 40, sanitized(t, op)) for op in SANITIZED_LATER for t in ("memcheck", "racecheck")]
    if args.rehearse:
        for check in checks:
            check.needs = min(check.needs, 5)
    return checks
