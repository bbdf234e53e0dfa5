#!/usr/bin/env bash
# A U-Net from drawn weights: cell membranes under the electron microscope (ISBI 2012), or road scenes (CamVid).
#   models/unet/run.sh                    16 + 4 pictures of this folder
#   models/unet/run.sh --full DATA_DIR    CamVid: DATA_DIR has train, trainannot, val, valannot
# Further flags: models/recipe.sh.
source "$(dirname "$0")/../recipe.sh"

if [ -z "$full" ]; then
  "$program" create unet --model_config '{"in_chans": 1, "num_classes": 2}' --out "$out/unet.onnx"
  data=$here/sample
  train "$out/unet.onnx" --train "$data/train_image" --train_masks "$data/train_mask" --val "$data/val_image" --val_masks "$data/val_mask" \
    --mask_values 0,255
else
  "$program" create unet --model_config '{"in_chans": 3, "num_classes": 11}' --out "$out/unet.onnx"
  train "$out/unet.onnx" --train "$full/train" --train_masks "$full/trainannot" --val "$full/val" --val_masks "$full/valannot" --mask_ignore 11 \
    --transforms "random_crop 256 | horizontal_flip | color_jitter 0.2 0.2 0.2" --eval_transforms "resize 352,480" --epochs 60
fi
table
