"""Let others do the work: PyTorch, the course.

What the course has published is no secret, and its Functions are right. So what is borrowed there
passes, but not unseen.
"""

from submissions import square

from autograd_course.grader.verdict import Status
from hostile.making import Hostile

_X = "(x,) = ctx.saved_tensors\n"
_BUILT_IN = "lets autograd differentiate"
_RULE = "('name-temperature').rule"


def _passes(source: str, seen: str) -> Hostile:
    return Hostile(source, seen=seen, status="passed")


def _names(source: str, seen: str, status: Status = "passed") -> Hostile:
    return Hostile(source, "", seen, status, "name-temperature", "name")


BORROWING = {
    "autograd.grad in backward": Hostile(
        square(backward=f"{_X}with torch.enable_grad():\n    x = x.detach().requires_grad_()\n"
               "    return torch.autograd.grad(x**2, x, g)[0]"), _BUILT_IN,
    ),
    "func.vjp in backward": Hostile(
        square(backward=f"{_X}return torch.func.vjp(torch.square, x)[1](g)[0]"), _BUILT_IN
    ),
    "a graph kept on ctx": Hostile(
        square("with torch.enable_grad():\n    ctx.x = x.detach().requires_grad_()\n"
               "    ctx.y = ctx.x * ctx.x\nreturn ctx.y.detach()",
               "ctx.y.backward(g)\nreturn ctx.x.grad"), "ctx.x holds a tensor",
    ),
    "func.jvp in backward": _passes(
        square(backward=f"{_X}return torch.func.jvp(torch.square, (x,), (g,))[1]"), "uses jvp"
    ),
    "the course's Square": _passes(
        "from autograd_course.functions import Square", "the course's own answers"
    ),
    "the course's backward": _passes(
        square(before="from autograd_course import functions",
               backward="return functions.Square.backward(ctx, g)"), "the course's own answers",
    ),
    "the catalogue's reference": _passes(
        square("from autograd_course.grader.exercises import find\n"
               "ctx.save_for_backward(x)\nreturn find('square').reference(x)"), "the grader",
    ),
    "the catalogue's rule": _names(
        f"from autograd_course.grader.exercises import find\nname = find{_RULE}", "the grader"
    ),
    "the same by way of torch": _names(
        f"import torch\nname = torch.sys.modules['autograd_course.grader.exercises'].find{_RULE}",
        "reaches torch.sys",
    ),
    "the same by way of importlib": _names(
        f"import importlib\nm = importlib.import_module('autograd_course.grader.exercises')\n"
        f"name = m.find{_RULE}", "imports importlib",
    ),
    "the catalogue's file": _names(
        "text = open('/course/autograd_course/grader/exercises/__init__.py').read()\n"
        "name = text[:9]", "calls open", "wrong",
    ),
}  # fmt: skip
