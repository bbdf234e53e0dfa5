"""Runs whole training jobs from files."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional

from . import _library as c
from ._callbacks import Callbacks
from .errors import OnnxAmpError
from .session import spec_of

_STOPPED = 75


def train(model, *, log: Optional[Callable[[str, str], None]] = None, progress: Optional[Callable[[dict], None]] = None,
          stop: Optional[Callable[[], bool]] = None, **settings) -> dict[str, Any]:
    """Fine-tunes a model as the command line does.

    Returns {"model": path, "steps": n, "stopped": bool, "metrics": {..}}.

    train("model.onnx", train="train.csv", val="dev.csv", use_fp16=True, output_dir="runs/first")

    The keyword arguments are the settings of the command line (`onnx-amp-finetune --help`). log receives (level, text),
    progress a dict after each step. stop is called after each step; if it returns True, the job ends with a checkpoint,
    from which resume="auto" continues. Ctrl-C does the same and raises KeyboardInterrupt. Errors: OnnxAmpError."""
    callbacks = Callbacks(log=log, progress=progress, stop=stop)
    try:
        c.call("run", spec_of(model, settings), ctypes.byref(callbacks.options))
    except OnnxAmpError as e:
        callbacks.finish()
        if e.status != _STOPPED or callbacks.result is None:
            raise
    callbacks.finish()
    return callbacks.result or {}
