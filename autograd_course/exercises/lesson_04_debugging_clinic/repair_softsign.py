"""Repair: memory that grows

1. Follow the references from object to object. The output refers to its grad_fn, which is ctx.
   Which object refers to the output?
2. An output stored as an attribute of ctx creates a cycle: each of the two keeps the other alive.
   PyTorch has a place for outputs that does not create one. (detach() or deleting the attribute in
   backward helps only in some cases.)
3. In forward: y = x / (1 + x.abs()), then ctx.save_for_backward(y), then return y. In backward:
   (y,) = ctx.saved_tensors.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped
from autograd_course.grader.suspecting import returning


def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return x / (1 + x.abs())


def needs_no_output(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that backward still works after the last reference to the output is gone."""
    _, outputs = applied(function, inputs)
    total = torch.stack([out.sum() for out in outputs]).sum()  # saves no output
    del outputs
    try:
        total.backward()
    except Exception as error:
        return found(
            "backward-raises",
            "The gradient is right only as long as a variable refers to the output. After "
            f"apply(x).sum() there is none, and backward raises {type(error).__name__}: "
            f"{first_line(error)}",
            {},
            "A weak reference does not keep the output alive. Save it with ctx.save_for_backward, "
            "which keeps it until backward has run.",
        )
    return None


EXERCISE = FunctionExercise(
    answer="Softsign",
    points=1,
    difficulty="easy",
    minutes=10,
    optional=True,
    section="What gradcheck does not ask",
    constraints="the memory is freed together with the output, without the garbage collector",
    reference=softsign,
    samplers=shaped(normal),
    gradient_suspects={
        "This is 1 / (1 + |y|). Express 1 + |x| in terms of y first. The derivative is "
        "(1 - |y|)².": returning(softsign, lambda x, g: g / (1 + softsign(x).abs())),
        "This is 1 / (1 + |y|)². The formula contains |x| there, and the saved tensor is y.": (
            returning(softsign, lambda x, g: g / (1 + softsign(x).abs()) ** 2)
        ),
        "This is y (1 - y), the derivative of a sigmoid.": returning(
            softsign, lambda x, g: g * softsign(x) * (1 - softsign(x))
        ),
        "This is 1 - y². The derivative of this function is (1 - |y|)².": returning(
            softsign, lambda x, g: g * (1 - softsign(x) ** 2)
        ),
        "This is 1 - |y|. The square is missing.": returning(
            softsign, lambda x, g: g * (1 - softsign(x).abs())
        ),
    },
    asked=("tensor-on-ctx", "ctx-cycle"),
    checks=(*CONDUCT, needs_no_output),
    seconds=20.0,  # detecting a cycle takes several runs of the garbage collector
    modeled_on="PyTorch #25340: an output as an attribute of ctx is never freed",
)
