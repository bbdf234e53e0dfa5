"""Finds, without a GPU, the type in which every node of an exported model computes under PyTorch's CUDA autocast.

    make_pytorch_autocast.py ZOO_FOLDER

Each zoo entry below runs node by node in torch on fake CUDA tensors (FakeTensorMode) with CUDA autocast on. Nodes are
executed by the calls of the exported PyTorch module: Gemm and MatMul + bias are F.linear; the nodes of an unfused
LayerNorm, GELU or scaled_dot_product_attention are one call. The dynamo exporter's metadata (pkg.torch.onnx.fx_node) state
which nodes belong to one call; for TorchScript exports, the module scopes in the names of nodes do. The type of a call is
that of the operations that a TorchDispatchMode receives below autocast, without casts.

Writes pytorch_autocast.txt (entry, first output, operator, type, call; type "-": no floating-point call of PyTorch
corresponds to the node) and pytorch_autocast.npz: the models, with every large weight replaced by one constant, so that
they compress well.
"""
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from safetensors.numpy import load_file
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

ENTRIES = ["bert_cls_eager_ts14", "bert_cls_sdpa_dyn18", "bert_cls_sdpa_ts17", "lenet_d2l_ts11", "lenet_relu_dyn18",
           "unet_convt_bce_ts13", "unet_convt_ce_dyn18", "unet_resize_bce_dyn18", "unet_resize_ce_ts14",
           "resnet_train_ts13", "resnet_eval_ts14", "resnet_eval_dyn18", "autoencoder_ts11", "store_inputs_hand11",
           "rossmann_mse_ts13", "albert_dyn18", "roberta_dyn18", "distilbert_ts14", "convnext_ts17", "densenet_ts14",
           "efficientnet_dyn18", "vgg_ts11"]
SHORT = {torch.float32: "fp32", torch.float16: "fp16"}
VIEWS = {"t", "transpose", "permute", "view", "_unsafe_view", "expand", "unsqueeze", "select"}
CALLS = {"linear", "gelu", "layer_norm", "scaled_dot_product_attention"}


class Recorder(TorchDispatchMode):
    """Records (kernel, type) of every floating-point kernel below autocast. Autocast's casts (_to_copy) and views of
    weights are not recorded."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.__name__.split(".")[0]
        flat = torch.utils._pytree.tree_leaves
        kinds = [t.dtype for t in flat(out) if isinstance(t, torch.Tensor) and t.is_floating_point()][:1]
        if not kinds:  # for comparisons, the type in which they compare
            ins = [t for t in flat((args, kwargs)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
            kinds = [ins[0].dtype] if ins else []
        if kinds and name not in ("_to_copy", "detach", "device", "empty"):
            self.seen.append((name, kinds[0]))
        return out


class Model:
    def __init__(self, path, batch):
        self.proto = onnx.load(path)
        g = self.proto.graph
        self.nodes = list(g.node)
        self.weights = {i.name for i in g.initializer}
        self.consts = {i.name: numpy_helper.to_array(i) for i in g.initializer}
        for n in self.nodes:
            if n.op_type == "Constant":
                self.consts[n.output[0]] = numpy_helper.to_array(n.attribute[0].t)
        self.values = dict(self.consts) | self.intermediate(batch)
        self.makes = {o: n for n in self.nodes for o in n.output}
        self.readers = defaultdict(list)
        for n in self.nodes:
            for i in n.input:
                self.readers[i].append(n)

    def intermediate(self, batch):
        """Returns every tensor of a real run, for concrete shapes and the integers of shape arithmetic."""
        m = onnx.ModelProto()
        m.CopyFrom(self.proto)
        names = [o for n in m.graph.node for o in n.output if o]
        have = {o.name for o in m.graph.output}
        m.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in have)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        s = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feed = {i.name: batch[i.name] for i in s.get_inputs()}
        out = [o.name for o in s.get_outputs()]
        return feed | dict(zip(out, s.run(out, feed)))

    def floating(self, name):
        return name in self.values and getattr(self.values[name], "dtype", None) == np.float32

    def is_scalar(self, name):
        return name in self.consts and self.consts[name].ndim == 0 and self.floating(name)

    def calls(self):
        """Returns (target, nodes) in topological order. With target None, there is one node, which is executed as its
        own operator."""
        groups = {}
        for n in self.nodes:
            for key, target in [self.fx_call(n) or self.scope_call(n) or (None, None)]:
                if key:
                    groups.setdefault(key, (target, []))[1].append(n)
        for n in self.nodes:
            if n.op_type == "Softmax" and not self.fx_call(n) and (sdpa := self.spelled_sdpa(n)):
                groups["sdpa" + n.name] = ("scaled_dot_product_attention", sdpa)
        member = {n.output[0]: k for k, (t, ns) in groups.items() for n in ns}
        last = {ns[-1].output[0]: k for k, (t, ns) in groups.items()}
        out = []
        for n in self.nodes:
            o = n.output[0]
            if o in last:
                out.append(groups[last[o]])
            elif o not in member:
                out.append((None, [n]))
        return out

    @staticmethod
    def fx_call(n):
        for p in n.metadata_props:
            if p.key == "pkg.torch.onnx.fx_node" and "target=torch.ops.aten." in p.value:
                target = p.value.split("target=torch.ops.aten.")[1].split(".")[0]
                return (p.value.split(" ")[0], target) if target in CALLS else None
        return None

    def scope_call(self, n):
        """Returns the call that a node belongs to by the scope in its name. TorchScript made
        '/bert/encoder/layer.0/intermediate/dense/MatMul' in module '.../dense'."""
        if n.op_type in ("Constant", "LayerNormalization") or "/" not in n.name[1:]:
            return None
        scope = n.name.rsplit("/", 1)[0]
        leaf = scope.rsplit("/", 1)[1]
        if leaf == "LayerNorm":
            return scope, "layer_norm"
        if leaf == "intermediate_act_fn":
            return scope, "gelu"
        if n.op_type in ("MatMul", "Add") and any(i in self.weights for i in n.input) and leaf != "":
            return scope, "linear"
        return None

    def spelled_sdpa(self, softmax):
        """Returns the nodes of torch.onnx's scaled_dot_product_attention, which multiplies both operands by the
        square root of the scale first."""
        add = self.makes[softmax.input[0]]
        mm = self.makes[add.input[0]]
        scaled = [self.makes.get(i) for i in mm.input]
        if mm.op_type != "MatMul" or any(s is None or s.op_type != "Mul" for s in scaled):
            return None
        tail = [softmax]
        while tail[-1].op_type != "MatMul":
            tail = tail + [r for r in self.readers[tail[-1].output[0]] if r not in tail]
        mask = self.makes[add.input[1]]
        return scaled + [mm] + ([mask] if mask.op_type == "Where" else []) + [add] + tail


def attr(n, name, default=None):
    for a in n.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return default


def pads(n, rank):
    p = attr(n, "pads", [0] * 2 * rank)
    assert p[:rank] == p[rank:], "PyTorch pads both sides alike"
    return p[:rank]


def call_node(m, n, t, shape):
    """Executes the PyTorch call of one node. t(i): input i as a fake tensor or a Python number."""
    op = n.op_type
    size = shape(n.output[0])
    if op in ("Add", "Sub", "Mul", "Div", "Pow"):
        f = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow}[op]
        return f(t(0), t(1))
    if op in ("Relu", "Tanh", "Sigmoid", "Erf", "Sqrt", "Exp", "IsNaN"):
        f = {"Relu": F.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Erf": torch.erf, "Sqrt": torch.sqrt,
             "Exp": torch.exp, "IsNaN": torch.isnan}[op]
        return f(t(0))
    if op in ("Conv", "ConvTranspose"):
        k = attr(n, "kernel_shape")
        common = dict(stride=attr(n, "strides", [1, 1]), padding=pads(n, len(k)), dilation=attr(n, "dilations", [1, 1]),
                      groups=attr(n, "group", 1))
        f = F.conv2d if op == "Conv" else F.conv_transpose2d
        return f(t(0), t(1), t(2) if len(n.input) > 2 else None, **common)
    if op == "BatchNormalization":
        return F.batch_norm(t(0), t(3).detach(), t(4).detach(), t(1), t(2), training=bool(attr(n, "training_mode", 0)))
    if op in ("MaxPool", "AveragePool"):
        f = F.max_pool2d if op == "MaxPool" else F.avg_pool2d
        return f(t(0), attr(n, "kernel_shape"), attr(n, "strides"), pads(n, 2))
    if op == "GlobalAveragePool":
        return F.adaptive_avg_pool2d(t(0), 1)
    if op == "ReduceMean":
        axes = attr(n, "axes") or m.consts[n.input[1]].tolist()
        return torch.mean(t(0), dim=axes, keepdim=bool(attr(n, "keepdims", 1)))
    if op == "Gemm":
        w = t(1) if attr(n, "transB", 0) else t(1).t()
        return F.linear(t(0), w, t(2))
    if op == "MatMul":
        return torch.matmul(t(0), t(1))
    if op == "Softmax":
        return torch.softmax(t(0), dim=attr(n, "axis", -1))
    if op == "LayerNormalization":
        return F.layer_norm(t(0), t(1).shape, t(1), t(2), attr(n, "epsilon", 1e-5))
    if op == "Concat":
        return torch.cat([t(i) for i in range(len(n.input))], dim=attr(n, "axis"))
    if op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return torch.reshape(t(0), size)
    if op == "Transpose":
        return t(0).permute(attr(n, "perm"))
    if op == "Resize":
        return F.interpolate(t(0), size=size[2:], mode={"nearest": "nearest", "linear": "bilinear"}[attr(n, "mode").decode()])
    if op == "Gather":
        x = t(0)
        if n.input[0] in m.weights and x.dim() == 2:
            return F.embedding(torch.empty(m.values[n.input[1]].shape, dtype=torch.int64, device="cuda"), x)
        return x.select(attr(n, "axis", 0), int(m.values[n.input[1]]))
    if op == "Where":
        return torch.where(t(0), t(1), t(2))
    if op == "Cast":
        return t(0).to(torch.float32)
    raise NotImplementedError(op)


def run(entry, path, batch, mode):
    m = Model(path, batch)
    fake = {}

    def tensor(name):
        if m.is_scalar(name):
            return float(m.consts[name].reshape(-1)[0])
        if name not in fake:
            v = np.asarray(m.values[name])
            dtype = {"float32": torch.float32, "bool": torch.bool}.get(str(v.dtype), torch.int64)
            fake[name] = torch.empty(v.shape, dtype=dtype, device="cuda")
            if name in m.weights and dtype == torch.float32:
                fake[name].requires_grad_(True)
        return fake[name]

    rows = []
    for target, nodes in m.calls():
        last = nodes[-1]
        inside = {o for n in nodes for o in n.output}
        if last.op_type in ("Shape", "Size", "Constant") or not any(m.floating(v) for v in [*last.input, *last.output]):
            continue
        if len(nodes) == 1 and not depends(m, last):
            explicit = last.op_type in ("Cast", "Where", "Sub", "Mul", "Expand", "Unsqueeze") and m.floating(last.output[0])
            data = all(i in m.consts for i in last.input if i)
            # Returns whether a value is computed only from integers and constants: a float32 mask, or Python numbers.
            rows.append((nodes, "-" if data or not explicit else "fp32", "Python numbers" if data else "mask in float32"))
            continue
        with mode, Recorder() as seen:
            arg = lambda k: tensor(last.input[k])  # noqa: E731
            ext = [i for n in nodes for i in n.input if i not in inside]
            if target == "linear":
                first = nodes[0]
                x = next(i for i in first.input if i not in m.weights and i not in m.consts)
                w, b = [next(i for i in n.input if i in m.weights and m.values[i].ndim == r)
                        for n, r in ((first, 2), (last, 1))] if len(nodes) > 1 else (None, None)
                out = F.linear(tensor(x), tensor(w).t(), tensor(b)) if w else call_node(m, last, arg, lambda o: m.values[o].shape)
            elif target == "layer_norm" and len(nodes) > 1:
                w, b = [tensor(i) for i in ext if i in m.weights]
                out = F.layer_norm(tensor(nodes[0].input[0]), w.shape, w, b, 1e-12)
            elif target == "gelu" and len(nodes) > 1:
                out = F.gelu(tensor(next(i for i in ext if i not in m.consts)))
            elif target == "scaled_dot_product_attention":
                out = sdpa(m, nodes, inside, tensor)
            else:
                out = call_node(m, last, arg, lambda o: m.values[o].shape)
        got = tuple(out.shape)
        want = tuple(m.values[last.output[0]].shape)
        assert got == want, (entry, last.name, got, want)
        fake[last.output[0]] = out
        if target == "scaled_dot_product_attention":
            # Autocast passes all operands, including the mask, to the call in one type, in which the fused kernels
            # multiply. Only the unfused fallback, which a fake device uses, widens the type inside the call.
            seen.seen = [(k, d) for k, d in seen.seen if k == "where"] + [("result", out.dtype)]
        work = [(k, d) for k, d in seen.seen if k not in VIEWS] or seen.seen[-1:]
        types = {d for _, d in work}
        assert len(types) == 1, (entry, last.name, seen.seen)
        kernels = "+".join(dict.fromkeys(k for k, _ in work))
        rows.append((nodes, SHORT[types.pop()], f"{target or 'node'}: {kernels}"))
    order = {id(n): i for i, n in enumerate(m.nodes)}
    flat = [(n, t, c) for nodes, t, c in rows for n in nodes if any(m.floating(v) for v in [*n.input, *n.output]) and n.op_type not in ("Shape", "Size")]
    return [(entry, n.output[0], n.op_type, t, c) for n, t, c in sorted(flat, key=lambda r: order[id(r[0])])]


def depends(m, n):
    """Returns whether the node depends on a weight or a floating-point input."""
    todo, seen = list(n.input), set()
    while todo:
        i = todo.pop()
        if i in seen or not i:
            continue
        seen.add(i)
        if m.floating(i) and (i in m.weights and not m.is_scalar(i) or i not in m.makes and i not in m.consts):
            return True
        if i in m.makes and m.makes[i].op_type not in ("Shape", "Size"):
            todo.extend(m.makes[i].input)
    return False


def sdpa(m, nodes, inside, tensor):
    """Returns q, k and v as the module passed them: the inputs of the group, v last. The dynamo exporter transposes k
    inside the group, TorchScript outside."""
    products = [n for n in nodes if n.op_type == "MatMul"]
    scaled = [next(n for n in nodes if i in n.output) for i in products[0].input]
    q = tensor(scaled[0].input[0])
    k = scaled[1].input[0]
    chain = []
    while k in inside:
        node = m.makes[k]
        chain.append(node.op_type)
        k = node.input[0]
    k = tensor(k) if chain else tensor(k).transpose(-2, -1)
    v = tensor(products[1].input[1])
    add = next(n for n in nodes if n.op_type == "Add")
    mask = m.makes[add.input[1]]
    assert mask.op_type == "Where", "a Boolean mask"
    return F.scaled_dot_product_attention(q, k, v, attn_mask=tensor(mask.input[0]))


def stripped(path):
    """Returns the model with each large floating-point weight filled with a constant. The constants differ, so that no
    weights are tied."""
    m = onnx.load(path)
    k = 0
    tensors = list(m.graph.initializer) + [a.t for n in m.graph.node if n.op_type == "Constant" for a in n.attribute]
    for t in tensors:
        a = numpy_helper.to_array(t)
        if a.dtype == np.float32 and a.size > 16:
            k += 1
            t.CopyFrom(numpy_helper.from_array(np.full_like(a, k / 1024), t.name))
    for n in m.graph.node:
        del n.metadata_props[:]
    return np.frombuffer(m.SerializeToString(), np.uint8)


def main(zoo):
    here = Path(__file__).parent
    mode = FakeTensorMode(allow_non_fake_inputs=False)
    torch.set_autocast_enabled("cuda", True)  # torch.autocast() switches itself off where there is no GPU
    torch.set_autocast_dtype("cuda", torch.float16)
    torch.set_autocast_cache_enabled(False)
    rows, models = [], {}
    for entry in ENTRIES:
        path = Path(zoo) / entry / "model.onnx"
        rows += run(entry, path, load_file(Path(zoo) / entry / "batch.safetensors"), mode)
        models[entry] = stripped(path)
    text = f"# made by make_pytorch_autocast.py with torch {torch.__version__}\n" + "".join("\t".join(r) + "\n" for r in rows)
    (here / "pytorch_autocast.txt").write_text(text)
    np.savez_compressed(here / "pytorch_autocast.npz", **models)


main(sys.argv[1])
