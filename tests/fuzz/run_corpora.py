"""Writes the seeds of fuzz targets that read files of runs: checkpoints, records of exports, and whole folders. Called by
make_corpora.py."""
import json
import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent / "corpus"


def write(target, name, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


MANIFEST = {"format": "onnx-amp-finetune checkpoint", "version": 1, "step": 1, "hashes": {"model": "00ff"},
            "files": [{"name": "state.safetensors", "bytes": 12, "crc32c": "0123abcd"}]}
STATE = {"applied_steps": 1,
         "scaler": {"scale": 65536.0, "growth_tracker": 1, "hysteresis_left": 1, "consecutive_skips": 0,
             "total_skips": 0},
         "sampler": {"epoch": 0, "window": 1}, "schedule": {"max_steps": 3, "begin": 0, "steps": 3, "hold": False},
             "evaluation_due": False,
         "best": {"value": 0.5, "step": 1, "evals_since": 0}}
METRICS = {"loss": 0.5, "samples": 6, "values": [["accuracy", 0.5], ["loss", None]]}


def manifest(**changes):
    text = json.dumps({**MANIFEST, "state": STATE, **changes}, indent=1)
    return text.removesuffix("\n}")


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, payload) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def checkpoints():
    def one(name, text, state=None):
        data = b"=== manifest\n" + text.encode() + b"\n"
        write("checkpoints", name, data + (b"=== state\n" + state if state is not None else b""))

    def state(**changes):
        return manifest(state={**STATE, **changes})

    ones = struct.pack("<f", 1.0)
    one("good", manifest())
    one("first_step", manifest(step=0))
    one("late", manifest(step=1 << 62))
    one("other_model", manifest(hashes={"model": "ff00"}))
    one("other_epoch", state(sampler={"epoch": 9223372036854775807, "window": 0}))
    one("negative_epoch", state(sampler={"epoch": -1, "window": -1}))
    one("late_window", state(sampler={"epoch": 0, "window": 1 << 40}))
    one("scale", state(scaler={**STATE["scaler"], "scale": 1e39, "growth_tracker": -5}))
    one("zero_scale", state(scaler={**STATE["scaler"], "scale": 0, "hysteresis_left": -1}))
    one("metrics", state(initial=METRICS, last={**METRICS, "group_column": "g", "groups": [{"name": "a", "samples": 2,
        "values": []}]}))
    one("metrics_of_wrong_type", state(initial={"loss": [], "samples": "x"}))
    one("evaluation", state(evaluation_due=True, padding_removal="off"))
    one("facts", state(facts=[1.0, 2.0], losses_not_finite=-3))
    one("schedule", state(schedule={"max_steps": 1 << 62, "begin": -5, "steps": 1 << 62, "hold": False}))
    one("endless_schedule", state(schedule={"max_steps": 1 << 53, "begin": 0, "steps": 1 << 53, "hold": False}))
    one("applied", state(applied_steps=-9223372036854775808))
    one("no_state", manifest(state={}))
    one("list_state", manifest(state=[1]))
    one("tensors", manifest(), safetensors({"param/w": ("F32", [3, 2], ones * 6), "param/b": ("F32", [2], ones * 2)}))
    one("wrong_shape", manifest(), safetensors({"param/w": ("F32", [2, 3], ones * 6)}))
    one("wrong_type", manifest(), safetensors({"param/w": ("I32", [3, 2], ones * 6)}))
    one("infinite", manifest(), safetensors({"param/b": ("F32", [2], struct.pack("<ff", float("inf"), float("nan")))}))
    one("moment", manifest(), safetensors({"m/w": ("F32", [3, 2], ones * 6), "v/w": ("F32", [3, 2], struct.pack("<f",
        -1.0) * 6)}))
    one("bad_state_file", manifest(), b"\xff" * 16)


def run_folders():
    run = {"version": "0.2.0", "model_sha256": "00", "finished": True, "config": {"config": {"lr": 0.1}},
           "final_metrics": {"accuracy": 0.5, "confusion_matrix": [[1, 0], [0, 1]]}, "labels": ["a", "b"]}
    record = {"format": "onnx-amp-finetune run", "version": 1, "files": {"model.onnx": {"bytes": 3,
        "crc32c": "364b3fb7"}}}
    plan = {"dtype": "fp16", "nodes": [{"op": "MatMul", "class": "allow", "compute": "fp16"}, {"op": "Shape",
        "class": "not-float"}],
            "warnings": ["w"], "cost": {"x": 1}}
    step = {"step": 1, "loss": 0.5, "lr": 0.1, "skipped": True}

    def one(name, files):
        out = b""
        for path, content in files.items():
            out += f"=== {path}\n".encode()
            out += (content if isinstance(content, str) else json.dumps(content)).encode() + b"\n"
        write("run_folders", name, out)

    point = "checkpoints/checkpoint-1/manifest.json"
    one("finished", {"run.json": run, ".run-files.json": record, "metrics.jsonl": json.dumps(step),
        "eval.jsonl": json.dumps(step),
                     "precision_plan.json": plan, "samples.json": {"samples": []}, "lr_range.json": {"points": []}})
    one("stopped", {".run-files.json": record, point: manifest(), "metrics.jsonl": json.dumps(step)})
    one("torn", {point: manifest(), "checkpoints/checkpoint-1/state.safetensors": "x" * 11,
        "checkpoints/checkpoint-2/manifest.json": "{"})
    one("moving", {".finish/.move.json": {"move": ["model.onnx", "../outside", "run.json"], "remove": ["run.json",
        "/etc", ".."]},
                   ".finish/model.onnx": "abc", "run.json": run})
    one("replacing", {"run.json": run, ".run-files.json": record, ".new-run/.run-files.json": record,
        ".new-run/metrics.jsonl": json.dumps(step),
                      ".new-run/checkpoints/checkpoint-1/manifest.json": manifest()})
    one("replaced", {".new-run/.move.json": {"move": [".run-files.json", "checkpoints/checkpoint-1", "metrics.jsonl"],
        "remove": ["eval.jsonl", "checkpoints/checkpoint-1"]},
                     ".new-run/metrics.jsonl": json.dumps(step), ".new-run/.run-files.json": record,
                         "eval.jsonl": "{}"})
    one("temporary", {"checkpoints/checkpoint-2.tmp-1/manifest.json": manifest(step=2),
        "checkpoints/checkpoint-2.tmp-1/state.safetensors": "x" * 11,
                      point: manifest()})
    one("earlier_version", {"run.json": run, "model.onnx": "abc"})
    one("foreign", {"model.onnx": "abc", "events.out.tfevents.1": ""})
    one("wrong_types", {"run.json": {"final_metrics": 1, "labels": {"a": [1]}}, ".run-files.json": [],
        "precision_plan.json": {"nodes": [1, "x", {"op": 2}]},
                        "metrics.jsonl": "[1]\n{\"step\": \"x\", \"skipped\": 3}\n{",
                            ".finish/.move.json": {"move": [1]}})
    one("plan_of_a_number", {"run.json": run, "precision_plan.json": {"nodes": 3, "warnings": 1}})
    one("deep", {"run.json": '{"a":' * 200 + "1" + "}" * 200, "metrics.jsonl": "[" * 200 + "]" * 200})


def export_records():
    good = {"settings": {"model": "m.onnx", "lr": 0.1, "freeze": ["*.bias"], "max_grad_norm": "inf"}, "asked": ["lr"],
            "data": {"text": True, "sides": False, "task": "classification", "classes": ["a", "b"]},
                "metadata": {"k": "v"}, "trained": ["w"]}
    for name, record in {
        "good": good, "no_settings": {**good, "settings": {}}, "wrong_types": {**good, "settings": {"lr": [1],
            "freeze": 3, "seed": "x"}},
        "unknown_task": {**good, "data": {**good["data"], "task": "x"}}, "empty": {}, "numbers": {**good,
            "settings": {"seed": 1e300, "batch_size": -1}},
        "data_of_wrong_type": {**good, "data": 1}, "asked_of_wrong_type": {**good, "asked": {"lr": 1}},
    }.items():
        write("export_records", name, json.dumps(record))
    write("export_records", "file", safetensors({"x": ("F32", [1], b"\0\0\0\0")}))
