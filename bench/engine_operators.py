"""Operators whose definition is ambiguous: every combination of the attributes of Resize, GridSample, RoiAlign, Pad and
the pools, computed by ONNX's reference, by onnxruntime, by PyTorch if it has the operator, and by the program
(`predict`). Prints which results differ, by operator and attributes. Exits with 1 if the program differs from
onnxruntime without an excuse (EXCUSES of engine_cases.py). The section "engine_operators.py" of README.md describes the
output.

Each file contains many nodes, so that the program starts rarely; a file that it refuses is bisected
until the node is found.
"""

import argparse
import collections
import itertools
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import common
import engine_cases
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file, save_file

TOLERANCE = 1e-4  # relative to the largest element: above fp32 rounding, far below the error of a wrong tap


def model_of(cases):
    """Builds one file: the cases' nodes, varying operands as inputs, fixed ones as initializers."""
    nodes, inputs, constants, outputs = [], {}, {}, []
    for c in cases:
        names = []
        for value in c.inputs:
            if value is None:
                names.append("")
                continue
            table, prefix = (inputs, "x") if c.is_data(value) else (constants, "c")
            name = next((n for n, v in table.items() if v is value), f"{prefix}{len(table)}")
            table[name] = value
            names.append(name)
        while names and not names[-1]:
            names.pop()
        nodes.append(helper.make_node(c.op, names, [f"y{c.number}"], name=f"n{c.number}", **c.attributes))
        kind = onnx.TensorProto.FLOAT
        outputs.append(helper.make_tensor_value_info(f"y{c.number}", kind, None))
    kinds = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "cases",
        [helper.make_tensor_value_info(n, kinds[n], v.shape) for n, v in inputs.items()],
        outputs,
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    opset = cases[0].opset
    ir = 10 if opset >= 21 else 8
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), inputs


def by_onnxruntime(case):
    model, inputs = model_of([case])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, inputs)[0]
    except Exception as e:  # a refusal counts as a result
        return str(e).splitlines()[0]


def by_reference(case):
    model, inputs = model_of([case])
    try:
        return np.asarray(ReferenceEvaluator(model).run(None, inputs)[0])
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]


def by_torch(case):
    if case.torch is None:
        return None
    try:
        return case.torch().numpy()
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]


def by_program(binary, cases, scratch, results):
    """Fills results[number] with outputs, or with the message of the refusal."""
    model, inputs = model_of(cases)
    onnx.save(model, scratch / "m.onnx")
    save_file({n: np.ascontiguousarray(v) for n, v in inputs.items()}, scratch / "in.safetensors")
    done = subprocess.run(
        [str(binary), "predict", scratch / "m.onnx", "--inputs", scratch / "in.safetensors", "--out", scratch / "out.safetensors"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode == 0:
        out = load_file(scratch / "out.safetensors")
        for c in cases:
            results[c.number] = out[f"y{c.number}"]
    elif len(cases) == 1:
        line = next((l for l in done.stderr.splitlines() if l.startswith("error")), done.stderr[:200])
        results[cases[0].number] = f"exit {done.returncode}: {line}"
    else:
        half = len(cases) // 2
        by_program(binary, cases[:half], scratch, results)
        by_program(binary, cases[half:], scratch, results)


def same(a, b):
    if a is None or b is None:
        return None
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    if a.shape != b.shape:
        return False
    if a.size == 0:
        return True
    bad = np.isnan(a) != np.isnan(b)
    both = np.isfinite(a) & np.isfinite(b)
    scale = max(1e-3, np.abs(b[both]).max(initial=0))
    infinite = ~both & ~np.isnan(a) & ~np.isnan(b)
    return not bad.any() and bool((a[infinite] == b[infinite]).all()) and bool((np.abs(a - b)[both] <= TOLERANCE * scale).all())


def worth(value):
    return "-" if value is None else "refuses" if isinstance(value, str) else "runs"


def verdict(case, got):
    """Returns the classes of equal results, as a short text."""
    names, groups = ["reference", "onnxruntime", "torch", "ours"], []
    for name in names:
        if got[name] is None:
            continue
        for g in groups:
            if same(got[g[0]], got[name]):
                g.append(name)
                break
        else:
            groups.append([name])
    words = []
    for g in groups:
        refuses = isinstance(got[g[0]], str)
        words.append("=".join(g) + (" (refuse)" if refuses else ""))
    return " | ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", help="the program (default: build/onnx-amp-finetune)")
    parser.add_argument("--only", default="", help="operators, separated by commas")
    parser.add_argument("--without_ours", action="store_true", help="compare the engines only")
    parser.add_argument("--every", type=int, default=1, help="every n-th case only")
    parser.add_argument("--show", type=int, default=0, help="print that many cases of each row in full")
    parser.add_argument("--differing", action="store_true", help="only rows where the program differs from onnxruntime, unexcused")
    parser.add_argument("--json", help="write the rows there")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    cases = [c for c in engine_cases.all_cases() if not args.only or c.op in args.only.split(",")][:: args.every]
    for i, c in enumerate(cases):
        c.number = i
    ours = {}
    if not args.without_ours:
        binary = common.find_binary(args.binary)
        with tempfile.TemporaryDirectory() as scratch:
            key = lambda c: (c.op, c.opset)
            for _, group in itertools.groupby(sorted(cases, key=key), key):
                group = list(group)
                for at in range(0, len(group), 200):
                    by_program(binary, group[at : at + 200], Path(scratch), ours)
    table, wrong_rows, examples, wrong = collections.Counter(), collections.Counter(), collections.defaultdict(list), 0
    for c in cases:
        got = {"reference": by_reference(c), "onnxruntime": by_onnxruntime(c), "torch": by_torch(c), "ours": ours.get(c.number)}
        row = (c.op, c.family, verdict(c, got))
        table[row] += 1
        examples[row].append((c, got))
        if got["ours"] is not None and not isinstance(got["onnxruntime"], str) and not same(got["ours"], got["onnxruntime"]):
            wrong += c.excuse is None
            wrong_rows[row] += c.excuse is None
    for row, n in sorted(table.items()):
        if args.differing and not wrong_rows[row]:
            continue
        print(f"{n:6} {row[0]:14} {row[1]:60} {row[2]}")
        for c, got in [e for e in examples[row] if not args.differing or not e[0].excuse][: args.show]:
            print("         ", c, {k: v[:150] if isinstance(v, str) else None if v is None else v.shape for k, v in got.items()})
    print(f"{len(cases)} cases, {wrong} where the program differs from what onnxruntime runs")
    if args.json:
        Path(args.json).write_text(json.dumps([[*row, n] for row, n in sorted(table.items())], indent=1))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
