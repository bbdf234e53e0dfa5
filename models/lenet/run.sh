#!/usr/bin/env bash
# Trains LeNet from random weights on Fashion-MNIST, as "Dive into Deep Learning" does on one device (section 13.5).
#   models/lenet/run.sh                      4,000 + 1,000 images of this folder
#   models/lenet/run.sh --full DATA_DIR      all 60,000 + 10,000: DATA_DIR has the four files of Fashion-MNIST
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

data=${full:-$here/sample}
"$program" create lenet --model_config "$here/model.json" --out "$out/lenet.onnx"
train "$out/lenet.onnx" --train "$data/train-images-idx3-ubyte.gz" --val "$data/t10k-images-idx3-ubyte.gz"
table
