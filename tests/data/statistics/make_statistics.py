"""Makes running statistics of BatchNormalization as PyTorch updates them, for tests/zoo/statistics_test.cc.

The net's second and third BatchNormalization are one module that is applied twice. It is trained by SGD for four steps of
two micro-batches. Step 1 is skipped: parameters and statistics are restored, as by a GradScaler that protects statistics.
PyTorch averages unbiased variances, the ONNX operator biased ones. So the expected variances are those of the operator's
ONNX reference implementation on the inputs of each module. The means are PyTorch's, which the operator's equal.
"""
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file

HERE = Path(__file__).parent
STEPS, SKIPPED, LR = 4, 1, 0.05
torch.manual_seed(7)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.conv3 = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.fc = torch.nn.Linear(4, 3)
        self.bn1 = torch.nn.BatchNorm2d(3)
        self.shared = torch.nn.BatchNorm2d(4, momentum=0.3, eps=1e-3)
        for bn in [self.bn1, self.shared]:
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.5, 2)
            torch.nn.init.normal_(bn.bias)

    def forward(self, x):
        h = torch.relu(self.bn1(self.conv1(x)))
        h = torch.relu(self.shared(self.conv2(h)))
        h = torch.relu(self.shared(self.conv3(h)))
        return self.fc(h.mean((2, 3)))


def blend(x, bn, mean, var):
    """Returns the ONNX operator's running mean and variance after a batch."""
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "rm", "rv"], epsilon=bn.eps, momentum=1 - bn.momentum, training_mode=1)
    info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "bn", [info(n) for n in "xsbmv"], [info("rm"), info("rv")])
    run = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    feeds = {"x": x, "s": bn.weight.detach().numpy(), "b": bn.bias.detach().numpy(), "m": mean, "v": var}
    return run.run(None, feeds)


def export(net, path):
    nodes = []

    def conv(name, x):
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [f"{name}_out"], f"/{name}/Conv", pads=[1, 1, 1, 1]))
        return f"{name}_out"

    def bn(name, x, k):
        m = getattr(net, name)
        nodes.append(helper.make_node("BatchNormalization", [x] + [f"{name}.{p}" for p in ["weight", "bias", "running_mean", "running_var"]], [f"{name}_{k}"],
                                      f"/{name}_{k}/BatchNormalization", epsilon=m.eps, momentum=1 - m.momentum))
        nodes.append(helper.make_node("Relu", [f"{name}_{k}"], [f"relu_{name}_{k}"], f"/{name}_{k}/Relu"))
        return f"relu_{name}_{k}"

    h = bn("bn1", conv("conv1", "x"), 0)
    h = bn("shared", conv("conv2", h), 0)
    h = bn("shared", conv("conv3", h), 1)
    nodes.append(helper.make_node("GlobalAveragePool", [h], ["pooled"], "/GlobalAveragePool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], "/Flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "/fc/Gemm", transB=1))
    weights = [numpy_helper.from_array(v.numpy(), k) for k, v in net.state_dict().items() if "num_batches" not in k]
    graph = helper.make_graph(nodes, "statistics", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 6, 6])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 3])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="make_statistics.py")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


net = Net()
export(net, HERE / "model.onnx")
x = torch.randn(8, 2, 6, 6) * 2 + 0.5
label = torch.tensor([0, 1, 2, 0, 2, 1, 1, 0])
save_file({"x": x.numpy(), "label": label.numpy()}, HERE / "batch.safetensors")

opt = torch.optim.SGD(net.parameters(), lr=LR)
names = ["bn1", "shared"]
var = {n: getattr(net, n).running_var.numpy().copy() for n in names}
mean = {n: getattr(net, n).running_mean.numpy().copy() for n in names}
seen = []
for n in names:
    getattr(net, n).register_forward_hook(lambda m, args, out, n=n: seen.append((n, args[0].detach().numpy().copy())))
golden, losses = {}, []
for step in range(STEPS):
    net.train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    keep = ({k: v.copy() for k, v in mean.items()}, {k: v.copy() for k, v in var.items()})
    opt.zero_grad()
    total = 0.0
    for rows in [slice(0, 4), slice(4, 8)]:
        seen.clear()
        loss = torch.nn.functional.cross_entropy(net(x[rows]), label[rows], reduction="sum") / 8
        loss.backward()
        total += loss.item()
        for n, v in seen:
            mean[n], var[n] = blend(v, getattr(net, n), mean[n], var[n])
    losses.append(total)
    if step == SKIPPED:
        net.load_state_dict(before)
        mean, var = keep
    else:
        opt.step()
    for n in names:
        torch_mean = getattr(net, n).running_mean.numpy()
        assert np.allclose(mean[n], torch_mean, atol=1e-6), (n, mean[n], torch_mean)
        golden[f"{step}/{n}.running_mean"] = torch_mean.copy()
        golden[f"{step}/{n}.running_var"] = var[n].astype(np.float32).copy()
net.eval()
golden["losses"] = np.array(losses, np.float64)
with torch.no_grad():  # evaluation with the biased variances
    for n in names:
        getattr(net, n).running_var.copy_(torch.from_numpy(var[n]))
    golden["logits"] = net(x).numpy()
save_file(golden, HERE / "golden.safetensors")
