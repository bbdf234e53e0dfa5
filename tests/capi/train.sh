#!/usr/bin/env bash
# Trains a model three times on the same batches: from memory through the C interface, as a job through the C interface,
# and by the command line. All model files must have the same bytes, also if one continues the checkpoint of another.
#   train.sh CAPI_TRAIN PROGRAM lenet|bert MODEL.onnx FOLDER [SETTINGS]
set -euo pipefail
train=$1 program=$2 kind=$3 model=$4 folder=$5
shift 5
rm -rf "$folder"
mkdir -p "$folder"
"$train" "$kind" "$model" "$folder" "$@"
"$program" --config "$folder/config.json" --quiet --save_steps 3
for made in fed.onnx resumed.onnx job/model.onnx; do
  cmp "$folder/$made" "$folder/cli/model.onnx"
done

# The command line continues the session's state, and a session continues the command line's checkpoint after 3 steps.
sed 's|"output_dir": "[^"]*"|"output_dir": "'"$folder"'/continued"|' "$folder/config.json" >"$folder/continued.json"
"$program" --config "$folder/continued.json" --quiet --resume "$folder/state" 2>"$folder/said" || { cat "$folder/said"; exit 1; }
grep -q "from a program that fed its batches" "$folder/said"
grep -q '"step": *4' "$folder/continued/metrics.jsonl"
if grep -q '"step": *3[,}]' "$folder/continued/metrics.jsonl"; then
  echo "the continued run trained step 3 again"
  exit 1
fi
"$train" "$kind" "$model" "$folder" "${1:-}" "$folder/cli/checkpoints/checkpoint-3"
for made in continued/model.onnx taken.onnx; do
  cmp "$folder/$made" "$folder/cli/model.onnx"
done
if cmp -s "$model" "$folder/fed.onnx"; then
  echo "training changed nothing"
  exit 1
fi
