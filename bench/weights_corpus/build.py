"""Builds the corpus of exports that measures how well weights are distinguished from constants
(bench/weights.py).

    PYTHON bench/weights_corpus/build.py --root FOLDER torch          # with torch, onnx, onnxsim, onnxslim
    PYTHON bench/weights_corpus/build.py --root FOLDER keras          # with tensorflow-cpu, tf-keras, tf2onnx
    PYTHON bench/weights_corpus/build.py --root FOLDER paddle         # with paddlepaddle, paddle2onnx
    PYTHON bench/weights_corpus/build.py --root FOLDER jax            # with jax, flax, jax2onnx
    PYTHON bench/weights_corpus/build.py --root FOLDER hand sklearn   # with onnx, scikit-learn, skl2onnx

Install each framework in a separate Python environment. FOLDER/{fit,test,heldout,unseen}/NAME gets model.onnx, truth.json
(common.py explains how), batch.npz and case.json. Existing cases are kept.

The corpus has four parts. The rules of evidence may be fitted to `fit` only. `test` has the same
exporters but other families of models. `heldout` has architectures that are in neither. The errors
that `test` and later `heldout` showed were corrected, so both count as fitted now. `unseen` was
written before these corrections and was scored once after them.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
HALVES = ("fit", "test", "heldout", "unseen")
MODULES = {
    "torch": ("torch_exporters", ("torch_fit", "torch_fit_images", "torch_test_signals", "torch_test_structures", "torch_test_images", "torch_heldout_sequences", "torch_heldout_structures", "torch_unseen_libraries", "torch_unseen_modules", "torch_unseen_operators")),
    "keras": ("keras_exporter", ("keras_unseen",)),
    "paddle": ("paddle_exporter", ("paddle_unseen",)),
    "jax": ("jax_exporter", ("jax_unseen",)),
    "hand": ("hand_written", ()),
    "sklearn": ("sklearn_exporter", ()),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exporters", nargs="+", choices=MODULES)
    parser.add_argument("--root", required=True, help="folder of the corpus")
    parser.add_argument("--half", choices=HALVES, help="this half only")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these texts")
    args = parser.parse_args()
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    for name in args.exporters:
        exporter, families = MODULES[name]
        for module in families:
            importlib.import_module(module)
        importlib.import_module(exporter).build(args.root, args.only, (args.half,) if args.half else HALVES)


if __name__ == "__main__":
    main()
