"""Check that a routine does not change the caller's tensors."""

from torch import Tensor

from autograd_course.grader.verdict import Verdict, wrong


def ask_for_no_gradient(*given: Tensor) -> Verdict | None:
    """Check that the caller's tensors do not require grad."""
    if not any(tensor.requires_grad for tensor in given):
        return None
    return wrong(
        "right, but afterwards the caller's own tensors require grad, so autograd records "
        "everything that the caller does with them. requires_grad_() works in place. Create leaves "
        "of your own with detach()."
    )
