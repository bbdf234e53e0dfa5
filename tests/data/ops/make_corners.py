"""Makes corner cases of gradients with PyTorch (float64), for tests/ops/corners_test.cc: powers at 0, products over zeros,
layer normalization of empty tensors, fully masked softmax rows, norms and deviations of 0."""
import json
from pathlib import Path

import torch

torch.manual_seed(3)
cases = []


def nums(t):
    return [x if x == x and abs(x) != float("inf") else str(x) for x in t.detach().reshape(-1).tolist()]


def pack(t):
    return {"dims": list(t.shape), "data": nums(t)}


def case(name, op, inputs, attrs, f, version=17):
    xs = [torch.tensor(x, dtype=torch.float64) if not torch.is_tensor(x) else x.double() for x in inputs]
    for x in xs:
        x.requires_grad_()
    y = f(*xs)
    dy = torch.randn_like(y)
    grads = torch.autograd.grad(y, xs, dy, allow_unused=True)
    cases.append({"name": name, "op": op, "version": version, "attrs": attrs, "in": [pack(x) for x in xs], "out": pack(y), "dy": pack(dy),
                  "grads": [pack(torch.zeros_like(x) if g is None else g) for x, g in zip(xs, grads)]})


case("pow at zero", "Pow", [[0.0, 0, 0, 0, 2, -1.5, 1, 0], [0.0, 2, 0.5, 1, 0, 2, -3, -1]], {}, torch.pow)
case("pow, one exponent 0", "Pow", [[[0.0, 1, -2], [3, 0, 0.5]], 0.0], {}, torch.pow)
case("pow, broadcast", "Pow", [[[0.0], [2.0], [0.5]], [0.0, 1.0, 2.0, 3.0, 0.5]], {}, torch.pow)
case("pow, one base 0", "Pow", [0.0, [0.0, 1, 2, 3.5]], {}, torch.pow)

x = torch.randn(3, 4, 2)
x[0, 1, 0] = 0
x[1, 2, 1] = x[1, 0, 1] = 0
x[2, :, 0] = 0


def prod(axes, keep):
    def f(v):
        for a in sorted(axes, reverse=True):
            v = v.prod(a, keepdim=keep)
        return v
    return f


for axes in [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]:
    for keep in [0, 1]:
        case(f"product over {axes}, keepdims {keep}", "ReduceProd", [x], {"axes": axes, "keepdims": keep}, prod(axes, bool(keep)))
case("product of one zero", "ReduceProd", [[0.0]], {"axes": [0], "keepdims": 0}, lambda v: v.prod(0))
case("product, no zero", "ReduceProd", [[2.0, -3.0, 0.5]], {"axes": [0], "keepdims": 0}, lambda v: v.prod(0))
case("product of nothing", "ReduceProd", [torch.zeros(2, 0)], {"axes": [1], "keepdims": 0}, lambda v: v.prod(1))

for dims, n in [((3, 0), (0,)), ((0, 4), (4,)), ((2, 0, 3), (3,)), ((2, 3, 0), (3, 0))]:
    case(f"layer norm of {list(dims)}", "LayerNormalization", [torch.zeros(dims), torch.ones(n), torch.zeros(n)], {"axis": -len(n)},
         lambda v, s, b, n=n: torch.nn.functional.layer_norm(v, n, s, b))

# Attention over masked keys; rows 1 and 4 have no key that is not masked. The formula avoids NaN, because the gradient
# of the usual NaN guard is NaN in PyTorch too.
mask = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
q, k, v = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in [(5, 3), (3, 4), (4, 2)])
s = torch.where(mask | ~mask.any(1, keepdim=True), q @ k, torch.tensor(-float("inf"), dtype=torch.float64))
y = (torch.softmax(s, 1) * mask.any(1, keepdim=True)) @ v
target = torch.randn(5, 2, dtype=torch.float64)
loss = ((y - target) ** 2).mean()
grads = torch.autograd.grad(loss, [q, k, v])
guard = {"mask": pack(mask.double()), "q": pack(q), "k": pack(k), "v": pack(v), "y": pack(y), "target": pack(target), "loss": loss.item(),
         "grads": [pack(g) for g in grads]}

x = torch.randn(3, 4, 2)
x[1] = 0
x[0, 2] = 0
for axes in [[2], [1], [1, 2]]:
    case(f"2-norm over {axes}, some 0", "ReduceL2", [x], {"axes": axes, "keepdims": 1}, lambda v, a=axes: torch.linalg.vector_norm(v, dim=a, keepdim=True))


def mvn(v):  # a channel of one value: its deviation counts as 1 (PyTorch's own gradient of the formula is NaN there)
    c = v - v.mean((0, 2), keepdim=True)
    var = (c * c).mean((0, 2), keepdim=True)
    return c / (torch.where(var == 0, torch.ones_like(var), var).sqrt() + 1e-9)


x = torch.randn(2, 3, 4)
x[:, 1] = 0.5
case("mean and variance, a constant channel", "MeanVarianceNormalization", [x], {"axes": [0, 2]}, mvn)
Path(__file__).with_name("corners.json").write_text(json.dumps({"cases": cases, "guard": guard}) + "\n")
