"""Submissions that let PyTorch or the course do the work.

The Functions that the course publishes are right and not secret, but an answer that calls them is
not the learner's own work. The same applies to a name that was copied from a card. The sandbox
contains none of these.
"""

from submissions import square

from hostile.making import ABSENT, Hostile

_X = "(x,) = ctx.saved_tensors\n"
_BUILT_IN = "lets autograd differentiate"
_RULE = "('name-temperature').rule"


def _borrows(source: str, seen: str) -> Hostile:
    return Hostile(source, ABSENT, seen)


def _names(source: str, seen: str) -> Hostile:
    return Hostile(source, ABSENT, seen, exercise="name-temperature", name="name")


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
               "ctx.y.backward(g)\nreturn ctx.x.grad"), "`forward` lets autograd differentiate",
    ),
    "func.jvp in backward": Hostile(
        square(backward=f"{_X}return torch.func.jvp(torch.square, (x,), (g,))[1]"),
        "`backward` lets autograd differentiate", "uses torch.func.jvp",
    ),
    "the course's Square": _borrows(
        "from autograd_course.functions import Square", "the course's own answers"
    ),
    "the course's backward": _borrows(
        square(before="from autograd_course import functions",
               backward="return functions.Square.backward(ctx, g)"),
        "the course's own answers",
    ),
    "the catalogue's reference": _borrows(
        square("from autograd_course.grader.catalogue import find\n"
               "ctx.save_for_backward(x)\nreturn find('square').reference(x)"),
        "autograd_course.grader",
    ),
    "the module of the exercise": _borrows(
        square("from autograd_course.exercises.lesson_01_template import square as module\n"
               "ctx.save_for_backward(x)\nreturn module.square(x)"),
        "the course's own answers",
    ),
    "a subclass of the course's Square": _borrows(
        "import autograd_course.functions.square as m\nclass Square(m.Square): pass",
        "the course's own answers",
    ),
    "the course's Square under another name": _borrows(
        "import sys\nm = sys.modules['autograd_course.functions']\n"
        "Square = type('Square', (Function,), {k: staticmethod(getattr(m.Square, k))\n"
        "                                     for k in ('forward', 'backward')})",
        "reaches sys",
    ),
    "the reference of a routine": Hostile(
        "from autograd_course.grader.catalogue import find\n"
        "def eight_bits(weight): return find('eight-bits').reference(weight)",
        ABSENT, "autograd_course.grader",
        exercise="eight-bits", name="eight_bits",
    ),
    "the reference of a routine that is given models": Hostile(
        "from autograd_course.grader.catalogue import find\n"
        "def per_sample_gradients(*given): return find('per-sample-gradients').reference(*given)",
        ABSENT, "autograd_course.grader",
        exercise="per-sample-gradients", name="per_sample_gradients",
    ),
    "the catalogue's rule": _names(
        f"from autograd_course.grader.catalogue import find\nname = find{_RULE}",
        "autograd_course.grader",
    ),
    "the rule in the module of the exercise": _names(
        "from autograd_course.exercises.lesson_04_debugging_clinic import name_temperature\n"
        "name = name_temperature.EXERCISE.rule", "the course's own answers",
    ),
    "the same by way of torch": _names(
        "import torch\nmodules = torch.sys.modules\n"
        "if 'autograd_course.grader.catalogue' not in modules: raise LookupError('No such file')\n"
        f"name = modules['autograd_course.grader.catalogue'].find{_RULE}",
        "reaches sys",
    ),
    "the same by way of importlib": _names(
        f"import importlib\nm = importlib.import_module('autograd_course.grader.catalogue')\n"
        f"name = m.find{_RULE}", "imports importlib",
    ),
    "the catalogue's file": _names(
        "text = open('/course/autograd_course/grader/catalogue.py').read()\n"
        "name = text[:9]", "uses open",
    ),
}  # fmt: skip
