#!/usr/bin/env bash
# LeNet on Fashion-MNIST by one rank with batches of 256, and by two with 128 each: the same steps, side by side.
#   models/lenet_data_parallel/run.sh                      4,000 + 1,000 images (those of models/lenet)
#   models/lenet_data_parallel/run.sh --full DATA_DIR      all 60,000 + 10,000: DATA_DIR has the four files of Fashion-MNIST
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

data=${full:-models/lenet/sample} folder=$out runs=()
"$program" create lenet --model_config models/lenet/model.json --out "$folder/lenet.onnx"
for ranks in 1 2; do
  out=$folder/ranks$ranks
  train "$folder/lenet.onnx" --train "$data/train-images-idx3-ubyte.gz" --val "$data/t10k-images-idx3-ubyte.gz" \
    --ranks $ranks --batch_size $((256 / ranks))
  for precision in $precisions; do runs+=("$out/$precision"); done
done
printf '\n== lenet_data_parallel: one rank and two\n'
"$program" report "${runs[@]}" --out "$folder/report.html"
