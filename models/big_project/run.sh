#!/usr/bin/env bash
# Trains a ViT with the settings of large vision projects at a small scale: accumulation, clipping, EMA, layer-wise
# learning rates, a cosine schedule, RandAugment and MixUp.
#   models/big_project/run.sh                      4,000 + 1,000 images, models/lenet/sample
#   models/big_project/run.sh --full DATA_DIR      all 60,000 + 10,000: DATA_DIR has the four files of Fashion-MNIST
# Further flags: models/recipe.sh; --optimizer adahessian uses second derivatives.
source "$(dirname "$0")/../recipe.sh"

data=${full:-models/lenet/sample}
"$program" create vit --model_config "$here/model.json" --out "$out/vit.onnx"
train "$out/vit.onnx" --train "$data/train-images-idx3-ubyte.gz" --val "$data/t10k-images-idx3-ubyte.gz"
table
