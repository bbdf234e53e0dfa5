"""First check on a GPU, two minutes: the device opens, computes, agrees with the CPU and records CUDA graphs; also times
BERT-base. docs/cuda.md has the command. Python's standard library only; nothing is installed or downloaded.

  python3 tools/gpu_smoke.py [--seconds 170]

Failures are repeated without CUDA graphs, without fusion, without both, without libraries, and without each of them, to
locate the fault. Results: $OUT/smoke.json, $OUT/smoke-failed.log (whole logs),
$OUT/bert-base.txt (kernel tables). Exit status: 0 success; 1 a failure; 2 a missing library; 75 out of time.
"""

import argparse
import concurrent.futures
import json
import math
import shutil
import sys

import gpu_kit

ZOO = {"LeNet": "lenet_relu_dyn18", "tiny BERT": "bert_cls_eager_ts14"}
# The largest difference that two losses of the first steps may have, relative to 1 + |loss|. tests/plugin allows the
# same differences between the two devices. They are larger in 16 bits, where rounding moves the curves apart.
ALLOWED = {"fp32": 1e-4, "bf16": 5e-2, "fp16": 2e-2}
STEPS, COMPARED = 30, 20
NO_GRAPHS, NO_FUSION = {"ONNX_AMP_CUDA_GRAPHS": "0"}, ["--fusion", "false"]
VARIANTS = [("graphs", NO_GRAPHS, []), ("fusion", {}, NO_FUSION), ("graphs and fusion", NO_GRAPHS, NO_FUSION),
            ("libraries", {"ONNX_AMP_CUDA_LIBRARIES": "none"}, []),
            ("cuBLASLt", {"ONNX_AMP_CUDA_LIBRARIES": "cudnn,nvrtc"}, []),
            ("cuDNN", {"ONNX_AMP_CUDA_LIBRARIES": "cublaslt,nvrtc"}, []),
            ("NVRTC", {"ONNX_AMP_CUDA_LIBRARIES": "cublaslt,cudnn"}, [])]  # fmt: skip
LIMIT, BISECTED = 30, 2  # seconds of a tiny run; number of faults that are bisected
TINY = {
    "bert": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128,
             "vocab_size": 200, "max_position_embeddings": 64},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 200, "n_positions": 64},
    "resnet18": {},
}  # fmt: skip
FLAGS = {"bert": ["--loss", "cross_entropy", "--max_seq_len", 32], "gpt2": ["--loss", "causal_lm", "--max_seq_len", 32],
         "resnet18": ["--loss", "cross_entropy"]}  # fmt: skip


def metrics(folder):
    """Returns the lines of metrics.jsonl. A loss that is not finite is null in that file."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["loss"] = math.nan if line["loss"] is None else line["loss"]
    return lines


class Smoke:
    def __init__(self, kit, device, small):
        self.kit, self.device, self.small, self.bisected = kit, device, small, 0
        self.base = kit.work / "bert_base.onnx"

    # --- comparison of losses with the CPU's

    def losses(self, model, precision, device, env=None, flags=(), tag=""):
        """Runs a training. Returns (losses, how the run ended)."""
        folder = self.kit.work / f"{model}-{precision}-{device}{tag}".replace(" ", "_")
        zoo = gpu_kit.ROOT / "tests" / "data" / "zoo" / ZOO[model]
        words = [self.kit.program, zoo / "model.onnx", "--train", zoo / "batch.safetensors", "--loss", "cross_entropy",
                 "--device", device, "--no_shuffle", "--epochs", STEPS, "--max_steps", STEPS, "--lr", "1e-3", "--dropout", 0,
                 "--no_verify_export", "--output_dir", folder, "--overwrite", "--quiet", *flags]  # fmt: skip
        words += [] if precision == "fp32" else [f"--use_{precision}"]
        threads = {"OMP_NUM_THREADS": "2"} if device == "cpu" else {}
        ended = self.kit.run(words, LIMIT, threads | (env or {}))
        found = []
        if ended.status == 0:
            found = [line["loss"] for line in metrics(folder)]
        shutil.rmtree(folder, ignore_errors=True)
        return found, ended, words

    def compared(self, model, precision, env=None, flags=(), tag=""):
        """Returns (whether the losses agree with the CPU's, text)."""
        got, ended, words = self.losses(model, precision, self.device, env, flags, tag or "-tried")
        if ended.status:
            return False, ended.said
        want, cpu, _ = self.cpu[model, precision].result()
        if cpu.status:
            return False, f"the CPU's run: {cpu.said}"
        if len(got) != STEPS or len(want) != STEPS:
            return False, f"{len(got)} steps, {len(want)} on the CPU"
        apart = [abs(a - b) / (1 + abs(a)) for a, b in zip(want, got)]
        wrong = [i for i, a in enumerate(apart[:COMPARED]) if not a <= ALLOWED[precision]]  # true for NaN too
        worst = max(apart[:COMPARED], key=lambda a: a if a == a else float("inf"))
        text = f"losses differ by {worst:.1e} (allowed {ALLOWED[precision]:.0e}); {got[0]:.4f} to {got[-1]:.4f}"
        if not wrong:
            return True, text
        text += f", the CPU's {want[0]:.4f} to {want[-1]:.4f}; wrong from step {wrong[0] + 1} on"
        ended.said, ended.text = f"wrong: {text}", ended.text + f"\nlosses {got}\nthe CPU's {want}"
        self.kit.keep_log(words, ended)
        return False, text

    # --- bisection

    def tried(self, attempt, tag):
        """Calls attempt(env, flags, tag) without changes. If that fails, calls it with each of VARIANTS, several at a
        time."""
        right, text = attempt({}, [], tag)
        if right or self.device == "cpu":
            return right, text
        with self.kit.lock:
            self.bisected += 1
            if self.bisected > BISECTED:
                return right, text

        def variant(v):
            try:
                right, said = attempt(v[1], v[2], f"{tag}-without-{v[0]}")
            except gpu_kit.OutOfTime:
                return None
            slow = "did not end" in said and "did not end" not in text  # products without a library take long
            return None if slow else right

        with concurrent.futures.ThreadPoolExecutor(len(VARIANTS)) as pool:
            found = dict(zip((name for name, _, _ in VARIANTS), pool.map(variant, VARIANTS)))
        names = lambda outcome: ", ".join(n for n, o in found.items() if o is outcome) or "nothing"
        said = f"right without {names(True)}; as wrong without {names(False)}"
        return False, f"{said}; {text}" + ("; undecided without " + names(None) if None in found.values() else "")

    def bench(self, kind, file, flags, limit, env=None, more=(), tag=""):
        words = [self.kit.program, "bench", file, "--device", self.device, "--use_bf16", *flags, *more]
        ended = self.kit.run(words, limit, env)
        if ended.status:
            return False, ended.said
        step = next((line for line in ended.output.splitlines() if line.rstrip().endswith("the step")), "it ran")
        if kind == "base":
            with open(self.kit.out / "bert-base.txt", "a", encoding="utf-8") as f:
                f.write(f"\n=== BERT-base {tag}\n{ended.output}")
        return True, step

    def create(self, kind, file, config):
        words = [self.kit.program, "create", kind, "--out", file, "--quiet", "--model_config", json.dumps(config)]
        ended = self.kit.run(words, 40)
        return ended.status == 0, ended.said or "made"

    # --- steps

    def tiny(self, kind):
        file = self.kit.work / f"{kind}.onnx"
        right, text = self.create(kind, file, TINY[kind])
        if not right:
            return right, text
        flags = ["--batch_size", 4, "--timed_steps", 3, *FLAGS[kind]]
        return self.tried(lambda env, more, tag: self.bench(kind, file, flags, LIMIT, env, more, tag), kind)

    def base_kernels(self, dropout):
        length = 32 if self.small else 128
        flags = ["--loss", "cross_entropy", "--batch_size", 32, "--max_seq_len", length, "--dropout", dropout]
        attempt = lambda env, more, tag: self.bench("base", self.base, flags, 45, env, more, tag)
        return self.tried(attempt, f"dropout {dropout}")

    def base_training(self, env, flags=(), tag=""):
        """Times steps in the form in which training runs them: as CUDA graphs, with uploads and reports."""
        steps, rows, length, vocabulary = (8, 4, 32, 200) if self.small else (80, 32, 128, 30522)
        data, out = self.kit.work / "base.safetensors", self.kit.work / f"base{tag}".replace(" ", "_")
        if not data.exists():
            gpu_kit.write_token_batches(data, steps * rows, length, vocabulary)
        words = [self.kit.program, self.base, "--train", data, "--loss", "cross_entropy", "--device", self.device,
                 "--batch_size", rows, "--use_bf16", "--no_shuffle", "--epochs", 1, "--dropout", 0, "--remove_padding", "false",
                 "--lr", "1e-5", "--max_grad_norm", 1, "--no_verify_export", "--output_dir", out, "--overwrite", "--quiet",
                 *flags]  # fmt: skip
        ended = self.kit.run(words, 45, env)
        if ended.status:
            return False, ended.said
        lines = metrics(out)
        shutil.rmtree(out, ignore_errors=True)
        ms = sorted(1e3 * rows / line["samples_per_s"] for line in lines[steps // 4 :])
        middle = ms[len(ms) // 2]
        right = all(math.isfinite(line["loss"]) for line in lines)
        return right, (f"{middle:.3f} ms a step (median of {len(ms)}; {ms[0]:.3f} to {ms[-1]:.3f}), {1e3 * rows / middle:.0f} "
                      f"sequences/s; loss {lines[0]['loss']:.4f} to {lines[-1]['loss']:.4f}")  # fmt: skip

    def run(self):
        kit = self.kit
        if not kit.libraries():
            kit.finish()
            return 2
        if self.device == "cuda":
            kit.read_ahead()
        (kit.out / "bert-base.txt").unlink(missing_ok=True)
        config = TINY["bert"] if self.small else {}
        with concurrent.futures.ThreadPoolExecutor(4) as background:
            self.cpu = {(m, p): background.submit(self.losses, m, p, "cpu") for p in ALLOWED for m in ZOO}
            base = background.submit(self.create, "bert", self.base, config)
            runs = [(f"{m} {p}", lambda m=m, p=p: self.tried(lambda env, flags, tag: self.compared(m, p, env, flags, tag), "gpu"))
                    for p in ALLOWED for m in ZOO]  # fmt: skip
            kit.step(*runs[0])  # run alone, because it shows how long opening the device takes
            kit.steps(runs[1:], 5)
            kit.steps([(f"tiny {kind}, bf16", lambda kind=kind: self.tiny(kind)) for kind in TINY], 3)
            name = "BERT-base B32 S128 bf16"
            kit.step(f"{name}, create", base.result)
        kit.step(f"{name}, kernel by kernel", lambda: self.base_kernels(0))
        kit.step(f"{name}, trained", lambda: self.tried(self.base_training, ""))
        kit.step(f"{name}, trained without graphs", lambda: self.base_training(NO_GRAPHS))
        kit.step(f"{name}, kernel by kernel, dropout 0.1", lambda: self.base_kernels(0.1))
        return kit.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=170, help="of this call")
    parser.add_argument("--patience", type=float, default=1, help="multiplies the limit of every command: for slow machines")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal")
    parser.add_argument("--small", action="store_true", help="a rehearsal: a tiny BERT in BERT-base's place")
    args = parser.parse_args()
    return Smoke(gpu_kit.Kit("smoke", args.seconds, args.patience), args.device, args.small).run()


if __name__ == "__main__":
    sys.exit(main())
