#!/usr/bin/env bash
# Trains a U-Net from random weights on cell membranes under the electron microscope, or on road scenes (CamVid).
#   models/unet/run.sh                    16 + 4 generated pictures of this folder (make_sample.py)
#   models/unet/run.sh --full DATA_DIR    ISBI 2012: DATA_DIR has image and label, 30 PNG files each; or CamVid: DATA_DIR
#                                         has train, trainannot, val, valannot
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

membranes() {
  "$program" create unet --model_config '{"in_chans": 1, "num_classes": 2}' --out "$out/unet.onnx"
  train "$out/unet.onnx" --train "$1/train_image" --train_masks "$1/train_mask" --val "$1/val_image" --val_masks "$1/val_mask" \
    --mask_values 0,255
}

# Makes links to the pictures of the ISBI stack in the same layout as sample/. The last five pictures are for
# evaluation.
split_stack() {
  local names=("$1"/image/*.png) name part i
  rm -rf "$2"
  mkdir -p "$2"/{train,val}_{image,mask}
  for i in "${!names[@]}"; do
    name=${names[$i]##*/}
    part=train
    [ "$i" -lt $((${#names[@]} - 5)) ] || part=val
    ln -s "$1/image/$name" "$2/${part}_image/"
    ln -s "$1/label/$name" "$2/${part}_mask/"
  done
}

if [ -z "$full" ]; then
  membranes "$here/sample"
elif [ -d "$full/label" ]; then
  split_stack "$full" "$out/data"
  membranes "$out/data"
else
  "$program" create unet --model_config '{"in_chans": 3, "num_classes": 11}' --out "$out/unet.onnx"
  train "$out/unet.onnx" --train "$full/train" --train_masks "$full/trainannot" --val "$full/val" --val_masks "$full/valannot" --mask_ignore 11 \
    --transforms "random_crop 256 | horizontal_flip | color_jitter 0.2 0.2 0.2" --eval_transforms "resize 352,480" --epochs 60
fi
table
