"""Submissions that are right only for the notebook's shapes and types, or on the first calls."""

from submissions import square

from hostile.making import ABSENT, Hostile

_MISMATCH = "gradient of `x`"
_CATALOGUE = """
from autograd_course.grader.catalogue import find
SHAPES = [tuple(sample[0].shape) for sample in find('square').samples().values()]
"""
_FRAMES = """
import sys
def graded():
    frame = sys._getframe()
    while frame is not None and 'doctor' not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None
"""


def _right_if(there: str, before: str = "") -> str:
    lines = f"(x,) = ctx.saved_tensors\nreturn 2 * x * g if {there} else x * g"
    return square(backward=lines, before=before)


DETECTING = {
    "the notebook's shapes": Hostile(_right_if("x.shape in {(3,), (4,), (5,)}"), _MISMATCH),
    "the catalogue's shapes": Hostile(
        _right_if("x.shape in SHAPES", _CATALOGUE), ABSENT, "imports autograd_course.grader"
    ),
    "the notebook's values": Hostile(_right_if("x.flatten()[0] in (1, 2, 3, -1)"), _MISMATCH),
    "one dtype": Hostile(_right_if("x.dtype == torch.float32"), _MISMATCH),
    "the first calls": Hostile(
        _right_if("not CALLS.append(1) and len(CALLS) < 9", "CALLS = []"), _MISMATCH
    ),
    "grad_output of ones": Hostile(_right_if("(g == 1).all()"), _MISMATCH),
    "a grader among the callers": Hostile(
        _right_if("graded()", _FRAMES), _MISMATCH, "uses _getframe"
    ),
}
