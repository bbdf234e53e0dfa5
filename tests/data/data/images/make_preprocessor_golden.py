#!/usr/bin/env python3
"""Makes golden data of the image processing that a model's configuration files describe, with transformers and timm. Run it
in this folder.

Writes preprocessors.json (the configuration files) and preprocessed.npz (picture.png processed by each of them).
Made with transformers 5.23, timm 1.0.31 and Pillow 13.0.
"""
import json

import numpy as np
import timm.data
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ConvNextImageProcessorPil, DeiTImageProcessorPil, ViTImageProcessorPil

image = Image.open("picture.png")
configs, arrays = {}, {}

for name, made in {
    "vit": ViTImageProcessorPil(size={"height": 18, "width": 20}),
    "clip": CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 18, "width": 18}),
    "convnext": ConvNextImageProcessorPil(size={"shortest_edge": 16}, crop_pct=0.75),
    "deit": DeiTImageProcessorPil(size={"height": 22, "width": 22}, crop_size={"height": 16, "width": 16}),
    "plain": ViTImageProcessorPil(size={"height": 12, "width": 12}, do_normalize=False, resample=3),
    "bytes": ViTImageProcessorPil(size={"height": 9, "width": 12}, do_rescale=False, do_normalize=False, resample=0),
}.items():
    configs[name] = json.loads(made.to_json_string())
    arrays[name] = np.asarray(made(image, return_tensors="np")["pixel_values"][0], dtype=np.float32)

for name, mode, interpolation, share in (("timm_center", "center", "bicubic", 0.9), ("timm_squash", "squash", "bilinear", 1.0)):
    cfg = dict(input_size=[3, 18, 18], interpolation=interpolation, crop_pct=share, crop_mode=mode,
               mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], num_classes=10)  # fmt: skip
    configs[name] = dict(architecture="resnet18", pretrained_cfg=cfg)
    made = timm.data.create_transform(tuple(cfg["input_size"]), interpolation=interpolation, crop_pct=share, crop_mode=mode,
                                      mean=cfg["mean"], std=cfg["std"])  # fmt: skip
    arrays[name] = made(image).numpy()

json.dump(configs, open("preprocessors.json", "w"), indent=1)
np.savez_compressed("preprocessed.npz", **arrays)
