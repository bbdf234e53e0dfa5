"""Fine-tunes ONNX models in mixed precision.

train() runs a whole job from files. Session trains with batches from memory. The console command onnx-amp-finetune is
the program itself."""

from ._library import capi as _c
from .errors import OnnxAmpError
from .job import train
from .session import InputInfo, ParameterInfo, Session, StepResult

__version__ = _c.onnx_amp_version().decode()
__all__ = ["InputInfo", "OnnxAmpError", "ParameterInfo", "Session", "StepResult", "train"]
