"""The cases of engine_operators.py: combinations of attributes, small inputs, and PyTorch's call if
it has the operator.
"""

import itertools

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

RANDOM = np.random.default_rng(0)


def data(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


IMAGES = {1: data(1, 2, 7), 2: data(1, 2, 5, 7), 3: data(1, 1, 4, 5, 3)}
LINES = {n: data(1, 1, n) for n in [3, 5, 6, 7, 10, 13, 17, 20, 30, 41]}
GRIDS = {
    2: RANDOM.uniform(-1.6, 1.6, (1, 3, 4, 2)).astype(np.float32),
    3: RANDOM.uniform(-1.6, 1.6, (1, 2, 3, 2, 3)).astype(np.float32),
}
POOLED = {1: data(1, 2, 9), 2: data(1, 2, 7, 9), 3: data(1, 1, 5, 6, 7)}
ROIS = np.array(
    [[1, 1, 5, 4], [0, 0, 6.5, 4.5], [2.3, 1.2, 2.9, 1.6], [-2, -3, 3, 2], [4, 3, 9, 8], [3, 3, 1, 1]], np.float32
)
ROI_IMAGES = np.zeros(len(ROIS), np.int64)


EXCUSES = {
    "tie": "half_pixel_symmetric and tf_half_pixel_for_nn, nearest: onnxruntime's fp32 coordinates are rounded elsewhere at ties",
    "negative": "SAME_* where strides leave elements over: onnxruntime refuses, or pads by negative numbers",
    "window": "a window wider than the padded input: onnxruntime makes an empty tensor or reads what is not there",
}


class Case:
    """A test of one node. family: the attributes by which the table groups its cases; excuse: a key of EXCUSES, or None."""

    number = 0

    def __init__(self, op, opset, attributes, inputs, family, call=None, excuse=None):
        self.op, self.opset, self.attributes, self.inputs = op, opset, attributes, inputs
        self.family, self.torch, self.excuse = family, call, excuse

    @staticmethod
    def is_data(value):
        return any(value is v for t in (IMAGES, GRIDS, POOLED, LINES) for v in t.values()) or value is ROIS or value is ROI_IMAGES

    def __str__(self):
        small = [
            None if v is None else v.tolist() if v.size <= 10 and not self.is_data(v) else list(v.shape) for v in self.inputs
        ]
        return f"{self.op}-{self.opset} {self.attributes} {small}"


# ---- Resize ---------------------------------------------------------------------------------------------------------

TRANSFORMS = [
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize",
    "half_pixel_symmetric",
]  # fmt: skip
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SCALES = [2.0, 1.7, 0.6, 0.5, 1.3, 0.34]
LENGTHS = [lambda n: n * 2, lambda n: n + 2, lambda n: max(1, n - 2), lambda n: 1]


def resize_modes(opset):
    transforms = [t for t in TRANSFORMS if opset >= 19 or t != "half_pixel_symmetric"]
    transforms = [t for t in transforms if opset < 13 or t != "tf_half_pixel_for_nn"]
    for t in transforms:
        base = {"coordinate_transformation_mode": t}
        for r in ROUNDINGS:
            yield {**base, "mode": "nearest", "nearest_mode": r}
        for anti in [0, 1] if opset >= 18 else [0]:
            extra = {"antialias": 1} if anti else {}
            yield {**base, "mode": "linear", **extra}
            if anti:
                yield {**base, "mode": "linear", "exclude_outside": 1, **extra}
            for a, outside in itertools.product([-0.75, -0.5], [0, 1]):
                yield {**base, "mode": "cubic", "cubic_coeff_a": a, "exclude_outside": outside, **extra}


def interpolate(x, attributes, scales, sizes):
    """Returns the PyTorch call that its exporters write with these attributes; None if there is none."""
    rank = x.ndim - 2
    t, mode = attributes.get("coordinate_transformation_mode"), attributes["mode"]
    name = {"linear": ["linear", "bilinear", "trilinear"][rank - 1], "cubic": "bicubic"}.get(mode, "nearest")
    rest = {}
    if mode == "nearest":
        if (t, attributes.get("nearest_mode")) != ("asymmetric", "floor"):
            return None
    elif t not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return None
    else:
        rest["align_corners"] = t == "align_corners"
    if mode == "cubic" and (rank != 2 or attributes["cubic_coeff_a"] != (-0.5 if attributes.get("antialias") else -0.75)):
        return None
    if attributes.get("exclude_outside", 0) != attributes.get("antialias", 0):
        return None
    if attributes.get("antialias"):
        if rank != 2:
            return None
        rest["antialias"] = True
    given = {"scale_factor": scales} if scales else {"size": sizes}
    return lambda: F.interpolate(torch.from_numpy(x), mode=name, **given, **rest)


def resize_cases():
    for opset, rank in itertools.product([11, 13, 18, 19], [1, 2, 3]):
        x = IMAGES[rank]
        roi = np.array([0, 0] + [0.2] * rank + [1, 1] + [0.9] * rank, np.float32)
        for attributes in resize_modes(opset):
            t = attributes["coordinate_transformation_mode"]
            crop = roi if t == "tf_crop_and_resize" else None
            more = {"extrapolation_value": 1.5} if crop is not None else {}
            excuse = "tie" if attributes["mode"] == "nearest" and t in ("half_pixel_symmetric", "tf_half_pixel_for_nn") else None
            told = " ".join(f"{k}={v}" for k, v in attributes.items() if k in ("mode", "antialias", "exclude_outside") and v)
            family = f"{told} {t} {attributes.get('nearest_mode', '')}"
            for s in SCALES:
                scales = np.array([1, 1] + [s] * rank, np.float32)
                call = interpolate(x, attributes, [s] * rank, None)
                empty = np.zeros(0, np.float32)
                first = crop if crop is not None else empty if opset < 13 else None
                yield Case("Resize", opset, {**attributes, **more}, [x, first, scales], family + " scales", call, excuse)
            for length in LENGTHS:
                spatial = [length(n) for n in x.shape[2:]]
                sizes = np.array([*x.shape[:2], *spatial], np.int64)
                call = interpolate(x, attributes, None, spatial)
                empty = np.zeros(0, np.float32)
                first, second = (crop if crop is not None else empty if opset < 13 else None), (empty if opset < 13 else None)
                yield Case("Resize", opset, {**attributes, **more}, [x, first, second, sizes], family + " sizes", call, excuse)
            if opset < 18 or crop is not None or t not in ("half_pixel", "align_corners"):
                continue
            for policy, length in itertools.product(["not_larger", "not_smaller"], LENGTHS[:3]):
                some = {**attributes, "axes": list(range(2, 2 + rank)), "keep_aspect_ratio_policy": policy}
                sizes = np.array([length(n) + i for i, n in enumerate(x.shape[2:])], np.int64)
                yield Case("Resize", opset, some, [x, None, None, sizes], family + " " + policy)
    yield from length_cases()
    for rank, mode, s in itertools.product([1, 2, 3], ["nearest", "linear"], SCALES):
        scales = np.array([1, 1] + [s] * rank, np.float32)
        yield Case("Resize", 10, {"mode": mode}, [IMAGES[rank], scales], f"mode={mode} opset 10")
        yield Case("Upsample", 9, {"mode": mode}, [IMAGES[rank], scales], f"mode={mode} opset 9")


def length_cases():
    """Yields cases of Resize with scales whose products are inexact: the output length and the nearest pixel depend on
    fp32 rounding."""
    empty = np.zeros(0, np.float32)
    for n, s in itertools.product([3, 5, 6, 7, 10, 13, 17, 20, 30, 41], [0.1, 0.3, 0.7, 0.9, 1.1, 1.4, 1 / 3, 2 / 3, 7 / 5, 3.3]):
        if n * s < 1:
            continue
        x = LINES[n]
        for mode, t in [("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "align_corners"), ("linear", "half_pixel")]:
            attributes = {"mode": mode, "coordinate_transformation_mode": t}
            if t == "asymmetric":
                attributes["nearest_mode"] = "floor"
            call = interpolate(x, attributes, [s], None)
            yield Case("Resize", 13, attributes, [x, None, np.array([1, 1, s], np.float32)], f"lengths {mode} {t}", call)
    x, roi = IMAGES[2], np.array([0, 0, 0.2, 0.2, 1, 1, 0.9, 0.9], np.float32)
    for mode, size in itertools.product(["nearest", "linear", "cubic"], [(5, 4), (5, 7), (3, 7), (9, 7), (1, 7)]):
        attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0}
        yield Case("Resize", 13, attributes, [x, roi, empty, np.array([1, 2, *size], np.int64)], f"one axis copied {mode}")


# ---- GridSample, RoiAlign -------------------------------------------------------------------------------------------


def grid_cases():
    for opset, rank, mode, padding, align in itertools.product(
        [16, 20], [2, 3], ["nearest", "linear", "cubic"], ["zeros", "border", "reflection"], [0, 1]
    ):
        if opset == 16 and rank == 3:
            continue
        old = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
        x, grid = IMAGES[rank], GRIDS[rank]
        call = lambda x=x, grid=grid, old=old, padding=padding, align=align: F.grid_sample(
            torch.from_numpy(x), torch.from_numpy(grid), old, padding, bool(align)
        )
        attributes = {"mode": old if opset == 16 else mode, "padding_mode": padding, "align_corners": align}
        yield Case("GridSample", opset, attributes, [x, grid], f"{rank}-D {mode} {padding} align={align}", call)


def roi_cases():
    for opset, mode, transform, ratio, scale, size in itertools.product(
        [10, 16, 22], ["avg", "max"], ["half_pixel", "output_half_pixel"], [0, 1, 2, 3], [1.0, 0.5], [(2, 3), (1, 1)]
    ):
        if opset == 10 and transform == "half_pixel":
            continue
        attributes = {
            "mode": mode, "sampling_ratio": ratio, "spatial_scale": scale, "output_height": size[0], "output_width": size[1],
        }  # fmt: skip
        if opset > 10:
            attributes["coordinate_transformation_mode"] = transform
        boxes = torch.from_numpy(np.concatenate([np.zeros((len(ROIS), 1), np.float32), ROIS], 1))
        call = lambda size=size, scale=scale, ratio=ratio, transform=transform, boxes=boxes: torchvision.ops.roi_align(
            torch.from_numpy(IMAGES[2]), boxes, size, scale, ratio, transform == "half_pixel"
        )
        family = f"{mode} {transform} ratio={'0' if ratio == 0 else 'n'} opset {opset}"
        yield Case("RoiAlign", opset, attributes, [IMAGES[2], ROIS, ROI_IMAGES], family, call if mode == "avg" else None)


# ---- Pad ------------------------------------------------------------------------------------------------------------


def pad_cases():
    names = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    for opset, rank, mode in itertools.product([11, 13, 18, 19, 21], [1, 2, 3], list(names)):
        if mode == "wrap" and opset < 19:
            continue
        x = IMAGES[rank]
        for begin, end in [(1, 2), (0, 2), (-1, 2), (1, -1), (-1, -1), (2, 0), (4, 5), (-2, 6)]:
            pads = np.array([0, 0] + [begin] * rank + [0, 0] + [end] * rank, np.int64)
            kind = "negative" if min(begin, end) < 0 else "wide" if begin > 3 else "plain"
            call = lambda x=x, mode=mode, begin=begin, end=end, rank=rank: F.pad(
                torch.from_numpy(x), [begin, end] * rank, names[mode]
            )
            family = f"{mode} {kind}"
            value = np.array(0.5, np.float32)
            yield Case("Pad", opset, {"mode": mode}, [x, pads], family, call)
            if mode == "constant":
                yield Case("Pad", opset, {"mode": mode}, [x, pads, value], family + " value")
            if opset >= 18:
                axes = np.array([-1, 1], np.int64)
                some = np.array([begin, 1, end, 0], np.int64)
                yield Case("Pad", opset, {"mode": mode}, [x, some, None, axes], family + " axes")
    for rank, mode in itertools.product([1, 2, 3], ["constant", "reflect", "edge"]):
        for begin, end in [(1, 2), (-1, 2)]:
            pads = [0, 0] + [begin] * rank + [0, 0] + [end] * rank
            attributes = {"mode": mode, "pads": pads, "value": 0.5}
            yield Case("Pad", 7, attributes, [IMAGES[rank]], f"{mode} opset 7")


# ---- Pools ----------------------------------------------------------------------------------------------------------


def torch_pool(op, rank, x, kernel, stride, pad, dilation, ceil, count, p):
    x = torch.from_numpy(x)
    if op == "MaxPool":
        return getattr(F, f"max_pool{rank}d")(x, kernel, stride, pad, dilation, ceil)
    if op == "AveragePool":
        return getattr(F, f"avg_pool{rank}d")(x, kernel, stride, pad, ceil, bool(count))
    return getattr(F, f"lp_pool{rank}d")(x.abs(), p, kernel, stride, ceil)


def pool_cases():
    for op, opset, rank in itertools.product(
        ["MaxPool", "AveragePool", "LpPool"], [7, 8, 10, 11, 12, 18, 19, 22], [1, 2, 3]
    ):
        x = POOLED[rank]
        known = {"MaxPool": [8, 10, 11, 12, 22], "AveragePool": [7, 10, 11, 19, 22], "LpPool": [7, 11, 18, 22]}[op]
        if opset not in known:
            continue
        dilated = opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
        rounded = opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op]
        for kernel, stride, auto, pads, dilation, ceil, count in itertools.product(
            [1, 2, 3, 4], [1, 2, 3, 4], ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"], [(0, 0), (1, 1), (0, 1), (1, 0)],
            [1, 2] if dilated else [1], [0, 1] if rounded else [0], [0, 1] if op == "AveragePool" else [0],
        ):  # fmt: skip
            if auto != "NOTSET" and pads != (0, 0) or max(pads) >= kernel:
                continue
            if auto[:4] != "SAME" and (kernel == 1 or stride == 4):
                continue
            attributes = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank}
            if auto != "NOTSET":
                attributes["auto_pad"] = auto
            elif pads != (0, 0):
                attributes["pads"] = [pads[0]] * rank + [pads[1]] * rank
            if dilation > 1:
                attributes["dilations"] = [dilation] * rank
            if ceil:
                attributes["ceil_mode"] = 1
            if count:
                attributes["count_include_pad"] = 1
            if op == "LpPool":
                attributes["p"] = 2
            call = None
            symmetric = auto in ("NOTSET", "VALID") and pads[0] == pads[1] and 2 * pads[0] <= kernel
            if symmetric and (dilation == 1 or op == "MaxPool") and (op != "LpPool" or (pads == (0, 0) and rank < 3)):
                call = lambda a=(op, rank, x, kernel, stride, pads[0], dilation, bool(ceil), count, 2): torch_pool(*a)
            told = f"{auto}{' padded' if pads != (0, 0) else ''}{' dilated' if dilation > 1 else ''}"
            family = f"{told}{' ceil' if ceil else ''}{' count_pad' if count else ''}"
            added = sum(pads) if auto == "NOTSET" else 0 if auto == "VALID" else None
            wide = added is not None and (kernel - 1) * dilation + 1 > min(x.shape[2:]) + added
            over = lambda n: (-(-n // stride) - 1) * stride + kernel < n
            cut = auto[:4] == "SAME" and any(over(n) for n in x.shape[2:])
            yield Case(op, opset, attributes, [x], family, call, "window" if wide else "negative" if cut else None)
    for op, rank in itertools.product(["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"], [1, 2, 3]):
        yield Case(op, 7, {}, [POOLED[rank]], "")


def all_cases():
    yield from resize_cases()
    yield from grid_cases()
    yield from roi_cases()
    yield from pad_cases()
    yield from pool_cases()
