"""What becomes of the tensors that a caller hands to a routine."""

from torch import Tensor

from autograd_course.grader.verdict import Verdict, wrong


def ask_for_no_gradient(*given: Tensor) -> Verdict | None:
    """Ask that these tensors of the caller's do not require grad."""
    if not any(tensor.requires_grad for tensor in given):
        return None
    return wrong(
        "right, but afterwards the caller's own tensors require grad, and whatever is done with "
        "them is recorded: requires_grad_() works in place. Make leaves of your own, by detach()."
    )
