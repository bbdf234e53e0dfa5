"""Writes update_bn.json: the statistics of model.onnx's first BatchNormalization after torch.optim.swa_utils.update_bn over
the rows of batch.safetensors, four at a time. PyTorch averages unbiased variances, the ONNX operator biased ones. So each
batch's variance is multiplied by (n - 1) / n."""
import json
from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, update_bn

HERE = Path(__file__).parent
weights = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in onnx.load(HERE / "model.onnx").graph.initializer}
x = load_file(HERE / "batch.safetensors")["x"]
net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.BatchNorm2d(3)).double()
with torch.no_grad():
    net[0].weight.copy_(weights["conv1.weight"])
    net[0].bias.copy_(weights["conv1.bias"])
averaged = AveragedModel(net)
averaged.update_parameters(net)
batches = [b.double() for b in x.reshape(-1, 2, 6, 6).split(4)]
update_bn(batches, averaged)
bn, n = averaged.module[1], 4 * 36
out = dict(batches=len(batches), mean=bn.running_mean.tolist(), var=(bn.running_var * (n - 1) / n).tolist())
(HERE / "update_bn.json").write_text(json.dumps(out) + "\n")
