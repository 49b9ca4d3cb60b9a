"""The five steps by hand: forward, contract, magnitudes, one element, gradcheck.

Each is one small function of plain PyTorch; of the rest of the doctor none needs more than what
a Function's arguments are called. What they saw is a :class:`Step`; :func:`five_steps` takes all
five in order.
"""

from autograd_course.doctor.steps.step import Step, Steps
from autograd_course.doctor.steps.walking import (
    check_element,
    compare_forward,
    compare_magnitudes,
    five_steps,
    run_backward,
    run_gradcheck,
)

__all__ = [
    "Step",
    "Steps",
    "check_element",
    "compare_forward",
    "compare_magnitudes",
    "five_steps",
    "run_backward",
    "run_gradcheck",
]
