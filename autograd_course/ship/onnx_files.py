"""ONNX files: checked, and run in ONNX Runtime on the CPU."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from autograd_course.ship.extra import require


def checked(model: Any) -> Any:
    """Return ``model`` as an ``onnx.ModelProto`` that ``onnx.checker`` accepts, shapes inferred.

    ``model`` is what ``torch.onnx.export`` returns, an ``onnx.ModelProto``, or the path of a file.

    Raises ``onnx.checker.ValidationError`` or ``onnx.shape_inference.InferenceError`` where the
    file breaks ONNX's rules, and ``MissingExtraError`` where onnx is not installed.
    """
    require("onnx")
    onnx = import_module("onnx")
    proto = getattr(model, "model_proto", model)
    if not isinstance(proto, onnx.ModelProto):
        proto = onnx.load(proto)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run_onnx(model: Any, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return what ``model`` computes of ``inputs`` in ONNX Runtime: a tensor, or as many as it has.

    ``model`` is as for :func:`checked`, and is checked. The inputs are given in the model's order.

    Raises what ONNX Runtime raises, and ``MissingExtraError`` where it is not installed.
    """
    require("onnx", "onnxruntime")
    session = import_module("onnxruntime").InferenceSession(
        checked(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [given.name for given in session.get_inputs()]
    feed = {n: x.detach().cpu().numpy() for n, x in zip(names, inputs, strict=True)}
    outputs = tuple(torch.from_numpy(output) for output in session.run(None, feed))
    return outputs[0] if len(outputs) == 1 else outputs
