"""Passes Python functions to the C interface as callbacks."""

from __future__ import annotations

import ctypes
import json
from typing import Callable, Optional

from . import _library as c

LEVELS = ("detail", "info", "note", "warning")


class Callbacks:
    """The options of a call. Exceptions must not pass through C, so the callbacks store them: an exception in a
    callback, KeyboardInterrupt too, stops a job after its current step, and finish() then raises it."""

    def __init__(self, samples_per_epoch: int = 0, log: Optional[Callable[[str, str], None]] = None,
                 progress: Optional[Callable[[dict], None]] = None, stop: Optional[Callable[[], bool]] = None):
        self.exception: Optional[BaseException] = None
        self.result: Optional[dict] = None
        o = self.options = c.Options()
        o.size, o.samples_per_epoch = ctypes.sizeof(o), samples_per_epoch
        if log:
            o.log = c.LogCallback(lambda _, level, text: self._keep(lambda: log(LEVELS[level], text.decode())))
        if progress:
            o.progress = c.ProgressCallback(lambda _, p: self._keep(lambda: progress(
                {name: getattr(p.contents, name) for name, _ in c.Progress._fields_})))
        o.stop = c.StopCallback(lambda _: self._stop(stop))
        o.result = c.ResultCallback(lambda _, text: self._keep(lambda: setattr(self, "result", json.loads(text))))

    def _keep(self, function):
        try:
            return function()
        except BaseException as e:  # finish() raises it
            self.exception = self.exception or e
            return None

    def _stop(self, stop) -> int:
        wanted = self._keep(stop) if stop else False
        return 1 if wanted or self.exception else 0

    def finish(self):
        if self.exception:
            raise self.exception
