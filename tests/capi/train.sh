#!/usr/bin/env bash
# Trains a model three times on the same batches: from memory through the C interface, as a job through the C interface,
# and by the command line. All model files must have the same bytes.
#   train.sh CAPI_TRAIN PROGRAM lenet|bert MODEL.onnx FOLDER [SETTINGS]
set -euo pipefail
train=$1 program=$2 kind=$3 model=$4 folder=$5
shift 5
rm -rf "$folder"
mkdir -p "$folder"
"$train" "$kind" "$model" "$folder" "$@"
"$program" --config "$folder/config.json" --quiet
for made in fed.onnx resumed.onnx job/model.onnx; do
  cmp "$folder/$made" "$folder/cli/model.onnx"
done
if cmp -s "$model" "$folder/fed.onnx"; then
  echo "training changed nothing"
  exit 1
fi
