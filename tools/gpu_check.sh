#!/bin/sh
# Proof on a GPU: see tools/gpu_check.py. Needs Python's standard library alone; the bench needs torch, onnx and numpy too.
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu_check.py" "$@"
