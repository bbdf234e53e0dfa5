"""Writes layer_decay.json: the scales that timm's param_groups_layer_decay assigns to the parameters of a ViT, a ConvNeXt, a
Swin and a ResNet, by their names in the exported files layers_*.onnx in the same folder. Needs torch, onnx and timm.

Exporters rename weights that they transpose or fold. Therefore a tensor of the file is matched by its values.
"""

import json
import os
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from timm.models.convnext import ConvNeXt
from timm.models.resnet import BasicBlock, ResNet
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay

HERE = os.path.dirname(os.path.abspath(__file__))
DECAY = 0.75
MODELS = {
    "vit": (lambda: VisionTransformer(img_size=16, patch_size=8, embed_dim=8, depth=3, num_heads=2, num_classes=3, init_values=1.0), 16),
    "vit_mean": (lambda: VisionTransformer(img_size=16, patch_size=8, embed_dim=8, depth=2, num_heads=2, num_classes=3, global_pool="avg"), 16),
    "convnext": (lambda: ConvNeXt(num_classes=3, depths=(1, 2, 3, 1), dims=(4, 6, 6, 8)), 32),
    "swin": (lambda: SwinTransformer(img_size=16, patch_size=4, num_classes=3, embed_dim=4, depths=(2, 1), num_heads=(1, 2), window_size=2), 16),
    "resnet": (lambda: ResNet(BasicBlock, [1, 2, 1, 1], num_classes=3, channels=(4, 4, 6, 6), stem_width=4), 32),
}


FILES = ["vit_ts", "vit_dyn", "vit_mean_ts", "convnext_ts", "convnext_dyn", "swin_dyn", "resnet_ts"]


def export(model, size, path, dynamo):
    x = torch.randn(2, 3, size, size)
    names = dict(input_names=["x"], output_names=["logits"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not dynamo:
            if any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules()):  # not folded into convolutions
                names.update(training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
            torch.onnx.export(model, x, path, dynamo=False, opset_version=17, **names)
            return onnx.load(path)
        torch.onnx.export(model, (x,), path, dynamo=True, opset_version=18, external_data=False, verbose=False, **names)
    file = onnx.load(path)
    for node in file.graph.node:  # the position of a node in the Python source
        for p in list(node.metadata_props):
            if p.key != "pkg.torch.onnx.name_scopes":
                node.metadata_props.remove(p)
    onnx.save(file, path)
    return file


def same(a, b):
    if a.size != b.size:
        return False
    return np.array_equal(a.ravel(), b.ravel()) or (a.ndim == 2 and np.array_equal(a.T.ravel(), b.ravel()))


def main():
    golden = {}
    for name, (make, size) in MODELS.items():
        torch.manual_seed(3)
        model = make().eval()
        for p in model.parameters():
            p.data.add_(0.02 * torch.randn_like(p))  # no two are equal
        names = {id(p): n for n, p in model.named_parameters()}
        scales = {}
        for group in param_groups_layer_decay(model, layer_decay=DECAY):
            for p in group["params"]:
                scales[names[id(p)]] = group["lr_scale"]
        for kind in ["ts", "dyn"]:
            if f"{name}_{kind}" not in FILES:
                continue
            file = f"layers_{name}_{kind}.onnx"
            graph = export(model, size, os.path.join(HERE, file), kind == "dyn").graph
            found = {}
            for t in graph.initializer:
                a = numpy_helper.to_array(t)
                for n, p in model.named_parameters():
                    if a.dtype == np.float32 and a.size > 1 and same(p.detach().numpy(), a):
                        found[t.name] = n
            missing = set(scales) - set(found.values())
            print(file, os.path.getsize(os.path.join(HERE, file)), len(found), "not as they are in the file:", sorted(missing))
            golden[file] = {t: scales[n] for t, n in found.items()}
    with open(os.path.join(HERE, "layer_decay.json"), "w") as f:
        json.dump({"layer_decay": DECAY, "files": golden}, f, separators=(",", ":"), sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
