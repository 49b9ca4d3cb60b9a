"""What ctx holds between forward and backward."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from autograd_course.visualize.functionlab.lines import written
from autograd_course.visualize.functionlab.trace import Kept
from autograd_course.visualize.kit.formatting import size


def held(node: Any, y: Tensor, inputs: Sequence[Any], names: Sequence[str]) -> Iterator[Kept]:
    """Tell what a custom Function's node holds: its saved tensors, then its attributes.

    A saved tensor is recognized by its memory: that of an input, of the output, or neither.
    """
    pairs = zip(inputs, names, strict=True)
    known = {x.data_ptr(): f"the input {name}" for x, name in pairs if isinstance(x, Tensor)}
    known[y.data_ptr()] = "the output"
    try:
        saved = [tensor for tensor in node.saved_tensors if tensor is not None]
    except RuntimeError as error:  # changed in place since
        saved = []
        yield Kept("saved tensors", "unusable", str(error).split(":")[0])
    for index, tensor in enumerate(saved):
        what = known.get(tensor.data_ptr(), "computed on the way")
        about = f"{str(tensor.dtype).removeprefix('torch.')}, {size(tensor.nbytes)}"
        yield Kept(f"saved tensor {index}", f"{what}, {about}", written(tensor))
    for name, attribute in vars(node).items():
        yield Kept(f"ctx.{name}", "attribute", written(attribute))
