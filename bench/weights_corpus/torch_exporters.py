"""Makes the cases of the corpus from a family of PyTorch models: one export for each "way".

A way is an exporter, an opset and options, such as "ts13", "ts17-nofold", "dynamo18",
"dynamo20-plain", "ts14-sim" and "ts14-slim". With "-fresh", parameters have PyTorch's initial
values; otherwise they have values like those after training. "-palette", "-int4" and "-ternary"
round matrices and kernels to few levels. "-fp16" stores the file in 16 bits.
"""

import contextlib
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


def few_levels(array, how):
    """Rounds `array` as weight compressors do: to 16 levels fitted to the array ("palette"), to 16
    equal steps for each 16 elements of a row ("int4"), or to -1, 0 and 1 times a scale ("ternary").
    """
    if how == "palette":
        edges = np.quantile(array, np.linspace(0, 1, 17))
        place = np.clip(np.searchsorted(edges, array) - 1, 0, 15)
        return np.array([array[place == k].mean() if (place == k).any() else 0 for k in range(16)], array.dtype)[place]
    if how == "ternary":
        scale = np.abs(array).mean()
        return (scale * np.clip(np.round(array / scale), -1, 1)).astype(array.dtype)
    groups = array.reshape(-1, 16) if array.size % 16 == 0 else array.reshape(array.shape[0], -1)
    scale = np.abs(groups).max(1, keepdims=True) / 7
    return (np.clip(np.round(groups / scale), -8, 7) * scale).reshape(array.shape).astype(array.dtype)


@contextlib.contextmanager
def rounded(module, how):
    """Rounds the module's matrices and kernels to few levels, within the context."""
    kept = {p: p.detach().clone() for p in module.parameters() if p.requires_grad and p.dim() >= 2 and p.numel() >= 128} if how else {}
    for p, value in kept.items():
        _set(p, few_levels(value.numpy(), how))
    yield
    for p, value in kept.items():
        _set(p, value.numpy())


def export(module, inputs, way):
    """Returns the ModelProto of `module` that `way` gives."""
    exporter, *options = way.split("-")
    with rounded(module, next((o for o in options if o in ("palette", "int4", "ternary")), None)):
        model = export_as_is(module, inputs, exporter, options)
    if "sim" in options:
        import onnxsim

        model, ok = onnxsim.simplify(model)
        assert ok
    if "slim" in options:
        import onnxslim

        model = onnxslim.slim(model)
    if "fp16" in options:
        from onnxconverter_common import float16

        model = float16.convert_float_to_float16(model)
    return model


def export_as_is(module, inputs, exporter, options):
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
    return onnx.load_from_string(file.getvalue())


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
            except Exception as error:  # an export that this version of PyTorch refuses is left out and reported
                print(f"{half}/{case}: no export: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
