"""Trains with batches from memory."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library as c
from ._callbacks import Callbacks

_DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
           "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}  # bfloat16 is a type of the package ml_dtypes
_NAMES = {number: name for name, number in _DTYPES.items()}

Batch = Mapping[str, Any]  # name of an input or label -> array


class StepResult(NamedTuple):
    step: int  # number of steps so far, including this one
    applied: int  # number of steps so far that changed the weights
    loss: float
    grad_norm: float  # before clipping
    lr: float
    loss_scale: float
    skipped: bool  # True: gradients were not finite, so nothing was changed


class ParameterInfo(NamedTuple):
    name: str
    shape: tuple
    trained: bool
    statistic: bool  # True for a running statistic, which training changes without a gradient


class InputInfo(NamedTuple):
    name: str
    dtype: str
    shape: Optional[tuple]  # None: unknown rank; a dim of -1: any size


def spec_of(model, settings: Mapping[str, Any]) -> bytes:
    """Returns a model and settings as JSON. Folders and files may be pathlib paths."""
    return json.dumps({"model": os.fspath(model), **settings}, default=os.fspath).encode()


def _numpy(tensor: c.Tensor) -> np.ndarray:
    """Returns a copy of a tensor that the library owns."""
    name = _NAMES[tensor.dtype]
    if name == "bfloat16":
        import ml_dtypes  # NumPy itself has no bfloat16
        dtype = np.dtype(ml_dtypes.bfloat16)
    else:
        dtype = np.dtype(name)
    shape = tuple(tensor.dims[i] for i in range(tensor.rank))
    count = int(np.prod(shape, dtype=np.int64))
    raw = ctypes.string_at(tensor.data, count * dtype.itemsize) if count else b""
    return np.frombuffer(raw, dtype).reshape(shape).copy()


class _CBatches:
    """Micro-batches in the form of the C interface. They point into arrays that this object keeps alive, so it must
    exist until the call returns."""

    def __init__(self, batches: Sequence[Batch]):
        self._keep = []
        self.array = (c.Batch * len(batches))()
        for i, batch in enumerate(batches):
            tensors = (c.Tensor * len(batch))()
            for j, (name, value) in enumerate(batch.items()):
                array = np.ascontiguousarray(value)
                if np.ndim(value) == 0:
                    array = array.reshape(())  # ascontiguousarray() makes at least one dimension
                if array.dtype.name not in _DTYPES or array.dtype.byteorder == ">":
                    raise TypeError(f"'{name}': arrays of {array.dtype} cannot be passed")
                dims = (ctypes.c_int64 * array.ndim)(*array.shape)
                tensors[j] = c.Tensor(name.encode(), _DTYPES[array.dtype.name], array.ndim, dims, array.ctypes.data)
                self._keep += [array, dims]
            self._keep.append(tensors)
            self.array[i] = c.Batch(tensors, len(batch))


class Session:
    """A model in training.

    Session("lenet.onnx", loss="cross_entropy", max_steps=100): the keyword arguments are the settings of the command
    line (docs/training.md) except those that name data. samples_per_epoch is needed by settings that count in epochs.
    log receives (level, text). Use a session in a `with` statement, or close() it. One thread at a time may use a
    session. Errors: OnnxAmpError."""

    def __init__(self, model, *, samples_per_epoch: int = 0, log: Optional[Callable[[str, str], None]] = None, **settings):
        self._handle = ctypes.c_void_p()
        self._callbacks = Callbacks(samples_per_epoch, log)
        c.call("open", spec_of(model, settings), ctypes.byref(self._callbacks.options), ctypes.byref(self._handle))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def close(self) -> None:
        """Frees the model; a second call does nothing."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            c.capi.onnx_amp_close(handle)

    def _call(self, name, *arguments):
        if not self._handle:
            raise ValueError("the session is closed")
        c.call(name, self._handle, *arguments, session=self._handle)
        self._callbacks.finish()

    @property
    def inputs(self) -> list[InputInfo]:
        """Returns the inputs that a batch must hold."""
        found = []
        for i in range(c.capi.onnx_amp_input_count(self._handle)):
            t = c.Tensor()
            self._call("input", i, ctypes.byref(t))
            shape = tuple(t.dims[k] for k in range(t.rank)) if t.rank >= 0 else None
            found.append(InputInfo(t.name.decode(), _NAMES.get(t.dtype, str(t.dtype)), shape))
        return found

    def encode(self, texts: Sequence[str], pairs: Optional[Sequence[str]] = None) -> dict[str, np.ndarray]:
        """Returns token ids, mask and types of texts (or pairs of texts), as the program encodes a table of them."""
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} pairs")
        strings = [None if s is None else (ctypes.c_char_p * len(s))(*(t.encode() for t in s)) for s in (texts, pairs)]
        batch = ctypes.POINTER(c.Batch)()
        self._call("encode", *strings, len(texts), ctypes.byref(batch))
        tensors = batch.contents
        return {tensors.tensors[i].name.decode(): _numpy(tensors.tensors[i]) for i in range(tensors.count)}

    def prepare(self, batch: Batch) -> None:
        """Compiles the step for batches like this one, which must have labels. train_step() calls this if necessary."""
        batches = _CBatches([batch])
        self._call("prepare", batches.array)

    def train_step(self, batches: Union[Batch, Sequence[Batch]]) -> StepResult:
        """Runs one optimizer step on a batch, or on several micro-batches, which together equal one large batch."""
        micro_batches = _CBatches([batches] if isinstance(batches, Mapping) else batches)
        r = c.Step(size=ctypes.sizeof(c.Step))
        self._call("train_step", micro_batches.array, len(micro_batches.array), ctypes.byref(r))
        return StepResult(r.step, r.applied, r.loss, r.grad_norm, r.lr, r.loss_scale, bool(r.skipped))

    def eval_step(self, batch: Batch) -> float:
        """Returns the loss of a batch, without training. outputs() then returns what the model computed."""
        batches, r = _CBatches([batch]), c.Evaluation(size=ctypes.sizeof(c.Evaluation))
        self._call("eval_step", batches.array, ctypes.byref(r))
        return r.loss

    def eval_finish(self) -> dict[str, Any]:
        """Returns the metrics over all batches since the last eval_finish(), including "loss" and "samples"."""
        r, text = c.Evaluation(size=ctypes.sizeof(c.Evaluation)), ctypes.c_char_p()
        self._call("eval_finish", ctypes.byref(r), ctypes.byref(text))
        return {**json.loads(text.value), "loss": r.loss, "samples": r.samples}

    def outputs(self) -> dict[str, np.ndarray]:
        """Returns those outputs of the last eval_step() that the loss reads."""
        found = {}
        for i in range(c.capi.onnx_amp_output_count(self._handle)):
            t = c.Tensor()
            self._call("output", i, ctypes.byref(t))
            found[t.name.decode()] = _numpy(t)
        return found

    @property
    def lr(self) -> float:
        """The learning rate of the next step. Setting it multiplies the schedule by a factor from here on."""
        value = ctypes.c_double()
        self._call("get_lr", ctypes.byref(value))
        return value.value

    @lr.setter
    def lr(self, value: float) -> None:
        self._call("set_lr", value)

    @property
    def loss_scale(self) -> float:
        """The loss scale of the next step; 1 without loss scaling."""
        value = ctypes.c_float()
        self._call("get_loss_scale", ctypes.byref(value))
        return value.value

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self._call("set_loss_scale", value)

    def parameters(self) -> list[ParameterInfo]:
        """Returns all parameters and running statistics, in the order of the model file."""
        found = []
        for i in range(c.capi.onnx_amp_parameter_count(self._handle)):
            p = c.Parameter(size=ctypes.sizeof(c.Parameter))
            self._call("parameter_info", i, ctypes.byref(p))
            shape = tuple(p.dims[k] for k in range(p.rank))
            found.append(ParameterInfo(p.name.decode(), shape, bool(p.trained), bool(p.statistic)))
        return found

    def _shape(self, name: str) -> tuple:
        for p in self.parameters():
            if p.name == name:
                return p.shape
        raise KeyError(name)

    def parameter(self, name: str) -> np.ndarray:
        """Returns a copy of a parameter's fp32 values. Raises KeyError for an unknown name."""
        values = np.empty(self._shape(name), np.float32)
        self._call("get_parameter", name.encode(), values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)
        return values

    def set_parameter(self, name: str, values) -> None:
        """Replaces a parameter's values; the optimizer's state is unchanged. Raises ValueError for another shape."""
        values = np.ascontiguousarray(values, np.float32)
        if values.shape != self._shape(name):
            raise ValueError(f"'{name}' has shape {self._shape(name)}, not {values.shape}")
        self._call("set_parameter", name.encode(), values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)

    def save_state(self, folder) -> str:
        """Writes a checkpoint below `folder` and returns its path."""
        path = ctypes.c_char_p()
        self._call("save_state", os.fsencode(folder), ctypes.byref(path))
        return os.fsdecode(path.value)

    def load_state(self, path) -> None:
        """Continues from a checkpoint folder, or from the newest usable checkpoint in a folder."""
        self._call("load_state", os.fsencode(path))

    def export(self, path) -> None:
        """Writes the model with the current weights, and compares the file's outputs with the session's."""
        self._call("export", os.fsencode(path))
