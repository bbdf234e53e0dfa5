#!/usr/bin/env bash
# Trains LeNet on Fashion-MNIST with one rank, and with two ranks that each process half of every batch. Compares the
# steps.
#   models/lenet_data_parallel/run.sh                      4,000 + 1,000 images (those of models/lenet)
#   models/lenet_data_parallel/run.sh --full DATA_DIR      all 60,000 + 10,000: DATA_DIR has the four files of Fashion-MNIST
# SETTINGS=better models/lenet_data_parallel/run.sh ... uses better.json instead of the book's config.json. Further
# flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

data=${full:-models/lenet/sample} folder=$out runs=()
settings=$here/${SETTINGS:-config}.json
[ -f "$settings" ] || { echo "$0: SETTINGS: config or better is wanted, not '$SETTINGS'" >&2; exit 2; }
batch=$(sed -n 's/.*"batch_size": \([0-9]*\).*/\1/p' "$settings")
"$program" create lenet --model_config models/lenet/model.json --out "$folder/lenet.onnx"
for ranks in 1 2; do
  out=$folder/ranks$ranks
  train "$folder/lenet.onnx" --train "$data/train-images-idx3-ubyte.gz" --val "$data/t10k-images-idx3-ubyte.gz" \
    --ranks $ranks --batch_size $((batch / ranks))
  for precision in $precisions; do runs+=("$out/$precision"); done
done
printf '\n== lenet_data_parallel: one rank and two\n'
"$program" report "${runs[@]}" --out "$folder/report.html"
