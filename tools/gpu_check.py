"""Full check on a GPU, to run after gpu_smoke.py: BERT-base compared with PyTorch, every test that needs a GPU, the
kernels of a BERT-base step measured by ncu, and sanitizers. docs/cuda.md has the command. Only the comparison needs
Python packages: torch, onnx, numpy.

  python3 tools/gpu_check.py [--seconds 500] [--only pytorch tests ncu sanitizers] [--cases bert_b32 unet ...]

Tests run in many processes, because after an illegal access by a kernel the device fails for the rest of its process.
Sanitizers run without NVIDIA's libraries, so that they check only the project's kernels. Results: $OUT/check.json,
$OUT/check-failed.log (whole logs), $OUT/bench.json and bench.md, $OUT/kernels.csv. Exit status: 0 success; 1 a failure;
2 a missing library; 75 out of time.
"""

import argparse
import collections
import csv
import io
import re
import sys

import gpu_kit

PARTS = ("pytorch", "tests", "ncu", "sanitizers")
# Test case and its duration in seconds. Long tests come first, so that short tests fill the gaps at the end.
TESTS = [
    ("GPU: the same bits in every run and without CUDA graphs", 150),
    ("GPU: the update is the CPU's", 100),
    ("fused attention on the GPU is the CPU's", 90),
    ("GPU: NCCL sums over one rank*", 60),
    ("GPU: memory comes back", 30),
]
KERNELS, MODELS = "GPU: kernels agree with the CPU's", "GPU: models agree with PyTorch"
# Operators whose kernels are checked by sanitizers. First those whose kernels copy asynchronously into shared memory,
# then those that share memory, sort or scatter.
SANITIZED = ["FusedAttention", "FusedAttentionGrad", "AddNormGrad", "Softmax", "ScatterElementsAdd", "LayerNorm", "ReduceSum",
             "Transpose"]  # fmt: skip
WITHOUT_LIBRARIES = {"ONNX_AMP_CUDA_LIBRARIES": "none"}
REFUSES = r"(?i)device not supported|insufficient permissions|unable to|failed to (?:initialize|attach)"
FAULT = r"^=+ (?:Error|Invalid|Misaligned|Race|Hazard|Out-of-range|Program hit|.*Potential).*"
# PyTorch's configurations that are likely the fastest. A first call has time only for these.
FIRST = ["--precisions", "bf16", "--modes", "eager", "reduce-overhead", "--sdpa", "flash", "cudnn", "--blocks", 3]
REHEARSAL = ["--tiny", "--device", "cpu", "--precisions", "bf16", "--modes", "eager", "--sdpa", "flash", "--blocks", 2, "--warm", 2]


class Check:
    def __init__(self, kit, args):
        self.kit, self.args, self.deviations = kit, args, {}

    # --- comparison with PyTorch

    def pytorch(self, case):
        kit = self.kit
        out = kit.out / "bench.json"
        words = [sys.executable, "bench/gpu.py", "--binary", kit.wrapper(kit.program), "--program", kit.program, "--cases", case,
                 "--out", out, "--seconds", int(min(kit.left(), 300) - 15), *(REHEARSAL if self.args.small else FIRST)]  # fmt: skip
        ended = kit.run(words, 300, ours=False)
        if ended.output.strip():
            with open(kit.out / "bench.md", "a", encoding="utf-8") as f:
                f.write(ended.output)
            print(ended.output)
        if ended.status == 75:  # the time limit of bench/gpu.py was reached
            raise gpu_kit.OutOfTime
        if ended.status and "No module named" in ended.text:
            return None, ended.said
        return ended.status == 0, ended.said or "losses agree with PyTorch's; bench.md has the table"

    # --- tests

    def test(self, case, limit, section=None, env=None):
        words = [self.kit.tests, case, *(["-c", section] if section else [])]
        ended = self.kit.run(words, limit, {"ONNX_AMP_DEVIATIONS": "1"} | (env or {}))
        found = {name: float(x) for x, name in re.findall(r"^deviation (\S+) (.*)$", ended.text, re.M)}
        with self.kit.lock:
            for name, x in found.items():
                if not x <= self.deviations.get(name, 0):
                    self.deviations[name] = x
        worst = max(found, key=lambda n: found[n] if found[n] == found[n] else float("inf"), default=None)
        numbers = f"; largest deviation {found[worst]:.3g} of what is allowed ({worst})" if worst else ""
        verdict = re.findall(r"^(?:test cases|All tests).*$", ended.text, re.M)
        if ended.status == 0 and verdict and "SKIPPED" not in ended.text:
            return True, verdict[-1] + numbers
        why = re.search(r"^.*(?:SKIPPED|FAILED|due to).*(?:\n.*){0,4}", ended.text, re.M)
        if not ended.said:
            ended.said = "it ran no test"
            self.kit.keep_log(words, ended)
        said = ended.said.split(":")[0] if why else ended.said
        return False, f"{said}; {gpu_kit.last_lines(why.group(0), 5) if why else ''}{numbers}"

    def tests(self):
        names = self.kit.run([self.kit.tests, "names of the operators"], 30)
        operators = re.findall(r"^([A-Z]\w+)$", names.text, re.M)
        zoo = sorted(p.parent.name for p in (gpu_kit.ROOT / "tests" / "data" / "zoo").glob("*/model.onnx"))
        if self.args.small:
            operators, zoo = operators[::25], zoo[:1]
        cases = TESTS[-1:] if self.args.small else TESTS
        jobs = [(case, lambda c=case, s=limit: self.test(c, s)) for case, limit in cases]
        jobs += [(f"model {z}", lambda z=z: self.test(MODELS, 60, z)) for z in zoo]
        jobs += [(f"kernel {op}", lambda op=op: self.test(KERNELS, 45, op)) for op in operators]
        if not operators:
            self.kit.note("tests", "FAILED", f"{self.kit.tests} lists no operators: {names.said}")
        self.kit.steps(jobs, 12)
        self.kit.report["deviations"] = dict(sorted(self.deviations.items(), key=lambda d: -d[1]))
        self.kit.write()
        for name, x in list(self.kit.report["deviations"].items())[:10]:
            print(f"deviation {x:.3g} of what is allowed: {name}")

    # --- kernels of a step

    def ncu(self):
        """Measures the kernels of one step after the warm-up; they are launched without CUDA graphs."""
        kit, ncu = self.kit, gpu_kit.find_tool("ncu")
        if not ncu:
            return None, "there is no ncu"
        model, data, rows, warm = kit.work / "bert.onnx", kit.work / "data.safetensors", 32, 3
        made = kit.run([kit.program, "create", "bert", "--out", model, "--quiet"], 40)
        if made.status:
            return False, made.said
        gpu_kit.write_token_batches(data, rows * (warm + 2), 128, 30522)
        words = [ncu, "--target-processes", "all", "--profile-from-start", "off", "--clock-control", "none", "--csv",
                 "--print-units", "base", "--metrics", "gpu__time_duration.sum,dram__bytes.sum", kit.wrapper(kit.program), model,
                 "--train", data, "--loss", "cross_entropy", "--device", "cuda", "--batch_size", rows, "--use_bf16", "--no_shuffle",
                 "--epochs", 1, "--dropout", 0, "--remove_padding", "false", "--no_verify_export", "--output_dir",
                 kit.work / "ncu", "--overwrite", "--quiet"]  # fmt: skip
        look = {"ONNX_AMP_CUDA_GRAPHS": "0", "ONNX_AMP_CUDA_PROFILE_STEP": str(warm)}
        ended = kit.run(words, 45, look, ours=False)
        return self.kernels(ended)

    def kernels(self, ended):
        start = ended.output.find('"ID"')
        kernels = collections.defaultdict(lambda: [0, 0.0, 0.0])  # kernel -> launches, microseconds, bytes
        for row in csv.DictReader(io.StringIO(ended.output[start:])) if start >= 0 else []:
            k, value = kernels[row["Kernel Name"]], float((row["Metric Value"] or "0").replace(",", ""))
            if row["Metric Name"] == "gpu__time_duration.sum":
                k[0], k[1] = k[0] + 1, k[1] + value / 1e3
            else:
                k[2] += value
        if not kernels:
            return False, ended.said or "ncu listed no kernel"
        with open(self.kit.out / "kernels.csv", "w", encoding="utf-8", newline="") as f:
            table = csv.writer(f)
            table.writerow(["kernel", "launches", "us", "bytes"])
            table.writerows([n, *k] for n, k in sorted(kernels.items(), key=lambda k: -k[1][1]))
        total = sum(k[1] for k in kernels.values())
        return True, f"{sum(k[0] for k in kernels.values())} launches, {total / 1e3:.3f} ms; kernels.csv"

    # --- sanitizers

    def sanitized(self, watch, tool, operator):
        words = [*watch(tool), KERNELS, "-c", operator]
        ended = self.kit.run(words, 45, WITHOUT_LIBRARIES, ours=False)
        if re.search(REFUSES, ended.text):
            return None, "the sanitizer does not run here: " + re.search(f".*(?:{REFUSES[4:]}).*", ended.text, re.I).group(0)
        wrong = re.findall(FAULT, ended.text, re.M)
        if wrong:
            return False, f"{len(wrong)} lines of errors; {wrong[0]}"
        if ended.status == 124:
            return True, "no error in its 45 s; it did not end"
        return ended.status == 0 and "SKIPPED" not in ended.text, ended.said or gpu_kit.last_lines(ended.text, 2)

    def sanitizers(self):
        sanitizer = gpu_kit.find_tool("compute-sanitizer")
        if not sanitizer:
            self.kit.note("sanitizers", "skipped", "there is no compute-sanitizer")
            return
        tests = self.kit.wrapper(self.kit.tests)
        watch = lambda tool: [sanitizer, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", tests]
        jobs = [(f"{tool} {op}", lambda t=tool, o=op: self.sanitized(watch, t, o), 20)
                for op in SANITIZED for tool in ("memcheck", "racecheck")]  # fmt: skip
        self.kit.steps(jobs, 6)

    def run(self):
        kit, parts = self.kit, self.args.only
        if not kit.libraries():
            kit.finish()
            return 2
        (kit.out / "bench.md").unlink(missing_ok=True)
        if "pytorch" in parts:
            for case in self.args.cases:
                kit.step(f"PyTorch {case}", lambda c=case: self.pytorch(c), 60)
        if "tests" in parts:
            self.tests()
        if "ncu" in parts:
            kit.step("ncu BERT-base", self.ncu, 30)
        if "sanitizers" in parts:
            self.sanitizers()
        return kit.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=500, help="of this call")
    parser.add_argument("--patience", type=float, default=1, help="multiplies the limit of every command: for slow machines")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cases", nargs="+", default=["bert_b32"], help="of bench/gpu.py")
    parser.add_argument("--small", action="store_true", help="a rehearsal: tiny nets on the CPU, some of the tests")
    args = parser.parse_args()
    return Check(gpu_kit.Kit("check", args.seconds, args.patience), args).run()


if __name__ == "__main__":
    sys.exit(main())
