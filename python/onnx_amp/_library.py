"""The C interface as ctypes. include/onnx_amp/onnx_amp.h documents every call."""

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p

from .errors import OnnxAmpError

ABI_VERSION = 1


class Error(ctypes.Structure):
    _fields_ = [("status", c_int32), ("id", c_char_p), ("fact", c_char_p), ("places", POINTER(c_char_p)),
                ("place_count", c_size_t), ("hint", c_char_p)]


class Progress(ctypes.Structure):
    _fields_ = [("step", c_int64), ("total", c_int64), ("epoch", c_double), ("loss", c_double), ("lr", c_double),
                ("seconds", c_double), ("samples_per_second", c_double), ("skipped", c_int64)]


LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
ProgressCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Progress))
StopCallback = ctypes.CFUNCTYPE(c_int32, c_void_p)
ResultCallback = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("samples_per_epoch", c_int64), ("user", c_void_p), ("log", LogCallback),
                ("progress", ProgressCallback), ("stop", StopCallback), ("result", ResultCallback)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_int32), ("dims", POINTER(c_int64)), ("data", c_void_p)]


class Batch(ctypes.Structure):
    _fields_ = [("tensors", POINTER(Tensor)), ("count", c_size_t)]


class Step(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("step", c_int64), ("applied", c_int64), ("loss", c_double), ("grad_norm", c_double),
                ("lr", c_double), ("loss_scale", c_double), ("skipped", c_int32), ("reserved", c_int32)]


class Evaluation(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("loss", c_double), ("samples", c_int64)]


class Parameter(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("dims", POINTER(c_int64)), ("rank", c_int32), ("trained", c_int32),
                ("statistic", c_int32), ("reserved", c_int32), ("elements", c_int64)]


_session = c_void_p
_status = c_int32
# Name of each function, type of its result, types of its arguments.
_functions = [
    ("version", c_char_p, []),
    ("abi_version", c_int32, []),
    ("last_error", POINTER(Error), [_session]),
    ("open", _status, [c_char_p, POINTER(Options), POINTER(_session)]),
    ("close", None, [_session]),
    ("input_count", c_size_t, [_session]),
    ("input", _status, [_session, c_size_t, POINTER(Tensor)]),
    ("encode", _status, [_session, POINTER(c_char_p), POINTER(c_char_p), c_size_t, POINTER(POINTER(Batch))]),
    ("prepare", _status, [_session, POINTER(Batch)]),
    ("train_step", _status, [_session, POINTER(Batch), c_size_t, POINTER(Step)]),
    ("eval_step", _status, [_session, POINTER(Batch), POINTER(Evaluation)]),
    ("eval_finish", _status, [_session, POINTER(Evaluation), POINTER(c_char_p)]),
    ("output_count", c_size_t, [_session]),
    ("output", _status, [_session, c_size_t, POINTER(Tensor)]),
    ("get_lr", _status, [_session, POINTER(c_double)]),
    ("set_lr", _status, [_session, c_double]),
    ("get_loss_scale", _status, [_session, POINTER(c_float)]),
    ("set_loss_scale", _status, [_session, c_float]),
    ("parameter_count", c_size_t, [_session]),
    ("parameter_info", _status, [_session, c_size_t, POINTER(Parameter)]),
    ("get_parameter", _status, [_session, c_char_p, POINTER(c_float), c_size_t]),
    ("set_parameter", _status, [_session, c_char_p, POINTER(c_float), c_size_t]),
    ("save_state", _status, [_session, c_char_p, POINTER(c_char_p)]),
    ("load_state", _status, [_session, c_char_p]),
    ("export", _status, [_session, c_char_p]),
    ("run", _status, [c_char_p, POINTER(Options)]),
]


def _load():
    beside = pathlib.Path(__file__).parent / "lib" / "libonnx_amp.so.1"
    path = os.environ.get("ONNX_AMP_LIBRARY") or (str(beside) if beside.exists() else "libonnx_amp.so.1")
    loaded = ctypes.CDLL(path)
    for name, result, arguments in _functions:
        function = getattr(loaded, "onnx_amp_" + name)
        function.restype, function.argtypes = result, arguments
    found = loaded.onnx_amp_abi_version()
    if found != ABI_VERSION:
        raise ImportError(f"{path} has ABI version {found}, and this package needs {ABI_VERSION}")
    return loaded


capi = _load()


def call(name, *arguments, session=None):
    """Calls onnx_amp_<name>. Raises OnnxAmpError for any status but 0. session: the session that stores the error."""
    status = getattr(capi, "onnx_amp_" + name)(*arguments)
    if status != 0:
        e = capi.onnx_amp_last_error(session).contents
        raise OnnxAmpError(status, e.id.decode(), e.fact.decode(), [e.places[i].decode() for i in range(e.place_count)],
                           e.hint.decode())
