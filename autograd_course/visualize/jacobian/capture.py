"""Both Jacobians of the function that a learner passed, or one sentence that says why not."""

from collections.abc import Callable, Sequence
from typing import Any

from autograd_doctor import CannotDiagnoseError
from autograd_doctor.formatting import sentence
from autograd_doctor.jacobians import ComputedJacobians, compute_jacobians
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import require_dense, require_values


def capture(
    fn: Any, inputs: Sequence[Any], of: int | None, reference: Callable[..., Any] | None
) -> ComputedJacobians:
    """Return both Jacobians of each output with respect to each input that is differentiated.

    Raises :class:`TraceError` if forward or backward raises, or a Jacobian is too large.
    """
    if isinstance(fn, Tensor) or not callable(fn):
        raise TraceError(
            "jacobian_view needs a function to run as its first argument, not "
            f"a {type(fn).__name__}; write jacobian_view(fn, x) rather than jacobian_view(fn(x))."
        )
    require_values(inputs)
    require_dense(inputs)
    try:
        return compute_jacobians(fn, inputs, output=of, reference=reference)
    except CannotDiagnoseError as error:
        raise TraceError(sentence(str(error))) from None
