"""Runs a run's adapters in onnxruntime-genai: tokens of the base model with slots, logits with an adapter, and two
adapters that are exchanged in one process. The folders are copies whose nodes have accuracy_level 0, because at level 4
the engine rounds activations to 8 bits. Exits with 1 if something differs.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import common
import numpy as np

QUESTIONS = ["What is the capital of France?", "Name three fruits.", "Why is the sky blue?"]
TOLERANCE = 1e-3  # relative to the largest logit


def exact_copy(model, files, to):
    """Makes a folder with the graph `model` at accuracy_level 0, its external data, and the other files of `files`."""
    import onnx

    shutil.copytree(files, to, ignore=shutil.ignore_patterns("model.onnx*", "reference*"))
    graph = onnx.load(model, load_external_data=False)
    for node in graph.graph.node:
        for a in node.attribute:
            if a.name == "accuracy_level":
                a.i = 0
    onnx.save(graph, to / "model.onnx")
    shutil.copy(model.parent / "model.onnx.data", to / "model.onnx.data")
    return to


class Engine:
    def __init__(self, folder, adapters=()):
        import onnxruntime_genai as og

        self.og, self.model = og, og.Model(str(folder))
        self.tokenizer = og.Tokenizer(self.model)
        self.adapters = og.Adapters(self.model) if adapters else None
        for name, file in adapters:
            self.adapters.load(str(file), name)

    def ids(self, text):
        return list(map(int, self.tokenizer.encode(text)))

    def start(self, ids, adapter, length):
        params = self.og.GeneratorParams(self.model)
        params.set_search_options(max_length=length, do_sample=False)
        generator = self.og.Generator(self.model, params)
        if adapter:
            generator.set_active_adapter(self.adapters, adapter)
        generator.append_tokens(np.array([ids], np.int32))
        return generator

    def tokens(self, ids, adapter=None, count=20):
        generator = self.start(ids, adapter, len(ids) + count)
        while not generator.is_done():
            generator.generate_next_token()
        return list(map(int, generator.get_sequence(0)))[len(ids) :]

    def logits(self, ids, adapter):
        """Returns the logits after the last token, float32 [vocabulary]."""
        generator = self.start(ids, adapter, len(ids) + 1)
        return np.asarray(generator.get_logits(), np.float32).reshape(-1)


def our_logits(binary, model, adapter, ids, work):
    from safetensors.numpy import load_file, save_file

    array = np.array([ids], np.int64)
    save_file({"input_ids": array, "attention_mask": np.ones_like(array)}, work / "ids.safetensors")
    out = work / "logits.safetensors"
    common.run_ours(binary, "predict", model, "--adapter", adapter, "--inputs", work / "ids.safetensors", "--out", out)
    return load_file(out)["logits"][0, -1]


def compare(args, work):
    base = exact_copy(args.folder / "model.onnx", args.folder, work / "base")
    slots = exact_copy(args.run / "model.onnx", args.folder, work / "slots")
    adapters = [("first", args.run / "model.onnx_adapter"), ("second", args.second / "model.onnx_adapter")]
    original, engine = Engine(base), Engine(slots, adapters)
    prompts = [original.ids(f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n") for q in QUESTIONS]
    report = {"prompts": len(prompts), "tokens": 20, "base_equal": True, "base_again_equal": True, "logits": {}}
    before = [original.tokens(p) for p in prompts]
    report["base_equal"] = [engine.tokens(p) for p in prompts] == before
    answers = {}
    for name, file in adapters:  # the engine switches adapters between the prompts
        ours = our_logits(args.binary, args.folder, file.parent, prompts[0], work)
        theirs = engine.logits(prompts[0], name)
        report["logits"][name] = float(np.abs(ours - theirs).max() / np.abs(ours).max())
        answers[name] = [engine.tokens(p, name) for p in prompts]
    swapped = [[engine.tokens(p, name) for name, _ in adapters] for p in prompts]
    report["swapped_equal"] = swapped == [list(pair) for pair in zip(*answers.values())]
    report["base_again_equal"] = [engine.tokens(p) for p in prompts] == before
    report["adapters_differ_from_base"] = {name: a != before for name, a in answers.items()}
    report["texts"] = {name: engine.tokenizer.decode(np.array(a[0], np.int32)) for name, a in answers.items()}
    report["texts"]["base"] = engine.tokenizer.decode(np.array(before[0], np.int32))
    same = report["base_equal"] and report["base_again_equal"] and report["swapped_equal"]
    report["agrees"] = same and max(report["logits"].values()) <= TOLERANCE
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary")
    parser.add_argument("--folder", type=Path, required=True, help="the int4 folder that was trained")
    parser.add_argument("--run", type=Path, required=True, help="run with --lora_export slots")
    parser.add_argument("--second", type=Path, required=True, help="run with an .onnx_adapter of another rank")
    parser.add_argument("--out", type=Path, help="results as JSON")
    args = parser.parse_args()
    args.binary = common.find_binary(args.binary)
    with tempfile.TemporaryDirectory() as work:
        report = compare(args, Path(work))
    print(json.dumps(report, indent=1))
    if args.out:
        common.write_json(args.out, report)
    raise SystemExit(0 if report["agrees"] else 1)


if __name__ == "__main__":
    main()
