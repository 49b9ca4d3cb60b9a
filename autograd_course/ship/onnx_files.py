"""ONNX files: checked, and run in ONNX Runtime on the CPU."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from autograd_course.ship.extra import require_packages


def check_onnx(model: Any) -> Any:
    """Check a model by ``onnx.checker``, with the shapes that it infers.

    Args:
        model: What ``torch.onnx.export`` returns, an ``onnx.ModelProto``, or the path of a file.

    Returns:
        The model as an ``onnx.ModelProto``.

    Raises:
        onnx.checker.ValidationError: The model breaks a rule of ONNX.
        onnx.shape_inference.InferenceError: Its shapes contradict each other.
        MissingExtraError: onnx is not installed.

    Example:
        >>> check_onnx("net.onnx").graph.output  # doctest: +SKIP
    """
    require_packages("onnx")
    onnx = import_module("onnx")
    proto = getattr(model, "model_proto", model)
    if not isinstance(proto, onnx.ModelProto):
        proto = onnx.load(proto)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run_onnx(model: Any, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Check a model as :func:`check_onnx` does, and run it in ONNX Runtime on the CPU.

    Args:
        model: As for :func:`check_onnx`.
        inputs: The inputs, in the order of the model.

    Returns:
        The output of the model, or a tuple if it has several.

    Raises:
        MissingExtraError: onnx or onnxruntime is not installed.

    Example:
        >>> run_onnx("net.onnx", torch.zeros(8, 64)).shape  # doctest: +SKIP
        torch.Size([8, 10])
    """
    require_packages("onnx", "onnxruntime")
    session = import_module("onnxruntime").InferenceSession(
        check_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [given.name for given in session.get_inputs()]
    feed = {n: x.detach().cpu().numpy() for n, x in zip(names, inputs, strict=True)}
    outputs = tuple(torch.from_numpy(output) for output in session.run(None, feed))
    return outputs[0] if len(outputs) == 1 else outputs
