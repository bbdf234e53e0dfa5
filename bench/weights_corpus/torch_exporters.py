"""How a PyTorch family becomes cases of the corpus: one export for each way.

A way is an exporter, an opset and options, as in "ts13", "ts17-nofold", "dynamo18",
"dynamo20-plain", "ts14-sim", "ts14-slim", each with "-fresh" for parameters as PyTorch initializes
them instead of values as training leaves them.
"""

import io
import warnings

import numpy as np
import onnx
import torch

from common import other_values, trained_values, write_case

FAMILIES = {}  # name -> (half, ways, function that returns (module, {input: tensor}), ambiguous names)


def family(half, ways, ambiguous=()):
    """Registers a function that returns (module, {input name: tensor}); the first dim of every
    input is the batch.
    """

    def register(make):
        FAMILIES[make.__name__] = (half, ways.split(), make, ambiguous)
        return make

    return register


def _set(tensor, array):
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.asarray(array)))


def redraw(module, rng):
    for p in module.parameters():
        if p.requires_grad:
            _set(p, other_values(p.detach().numpy(), rng))


def train_a_little(module, rng):
    for p in module.parameters():
        if p.requires_grad:
            _set(p, trained_values(p.detach().numpy(), rng))
    for m in module.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.running_mean is not None:
            _set(m.running_mean, 0.3 * rng.standard_normal(m.running_mean.shape).astype(np.float32))
            _set(m.running_var, rng.uniform(0.4, 2.0, m.running_var.shape).astype(np.float32))


def export(module, inputs, way):
    """`module` as the ModelProto that `way` gives."""
    exporter, *options = way.split("-")
    args, names = tuple(inputs.values()), list(inputs)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter.startswith("ts"):
            torch.onnx.export(
                module,
                args,
                file,
                dynamo=False,
                opset_version=int(exporter[2:]),
                input_names=names,
                output_names=["out"],
                do_constant_folding="nofold" not in options,
                dynamic_axes={n: {0: "batch"} for n in [*names, "out"]},
            )
            model = onnx.load_from_string(file.getvalue())
        else:
            shapes = tuple({0: torch.export.Dim.AUTO} for _ in args)
            program = torch.onnx.export(
                module,
                args,
                dynamo=True,
                opset_version=int(exporter[6:]),
                input_names=names,
                output_names=["out"],
                dynamic_shapes=shapes,
                optimize="plain" not in options,
                verbose=False,
            )
            program.save(file)
            model = onnx.load_from_string(file.getvalue())
    if "sim" in options:
        import onnxsim

        model, ok = onnxsim.simplify(model)
        assert ok
    if "slim" in options:
        import onnxslim

        model = onnxslim.slim(model)
    return model


def build(root, only, halves):
    for name, (half, ways, make, ambiguous) in FAMILIES.items():
        if half not in halves:
            continue
        for way in ways:
            case = f"{name}_{way}"
            if only and not any(o in case for o in only):
                continue
            seed = sum(map(ord, case))
            torch.manual_seed(seed)
            rng = np.random.default_rng(seed)
            try:
                module, inputs = make()
                module.eval()
                if "fresh" not in way:
                    train_a_little(module, rng)
                batch = {k: v.numpy() for k, v in inputs.items()}
                write_case(
                    root,
                    half,
                    case,
                    "torch " + way.removesuffix("-fresh"),
                    name,
                    lambda: export(module, inputs, way),
                    lambda: redraw(module, rng),
                    batch,
                    ambiguous,
                )
            except Exception as error:  # an export that this version of PyTorch refuses is left out, and said
                print(f"{half}/{case}: no export: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
