"""Submissions that look for the exercise's reference, samples, checks and hints.

Each submission is right if it finds any of these in its process or its files. Otherwise, it reports
that it found none.
"""

from submissions import square

from hostile.making import Hostile

_NOTHING = "LookupError: nothing of an exercise"
_LOOKS = """
{lines}
if not found: raise LookupError("nothing of an exercise is here")
reference = found[0] if callable(found[0]) else torch.square
"""
_COURSE = "__import__('autograd_course').__path__[0]"
_PARTS = "('exercises', 'functions', 'grader/checks')"
_IS_OURS = f"any(f'autograd_course/{{part}}/' in code.co_filename for part in {_PARTS})"


def _finds(lines: str, seen: str) -> Hostile:
    forward = "ctx.save_for_backward(x)\nreturn reference(x)"
    return Hostile(square(forward, before=_LOOKS.format(lines=lines)), _NOTHING, seen)


PEEKING = {
    "imports": _finds(
        "import importlib\nfound = []\n"
        "for name in ('exercises.lesson_01_template.square', 'grader.catalogue', 'grader.checks',\n"
        "             'grader.hints', 'grader.sampling', 'grader.trials.digits', 'quizzes',\n"
        "             'functions.square', 'index', 'messages', 'practice', 'learner'):\n"
        "    try: found.append(importlib.import_module(f'autograd_course.{name}'))\n"
        "    except ImportError: pass", "imports importlib",
    ),
    "all modules that pkgutil finds": _finds(
        "import pkgutil, autograd_course\n"
        "names = [each.name for each in pkgutil.walk_packages(autograd_course.__path__)]\n"
        "found = [n for n in names if n in ('exercises', 'grader', 'quizzes', 'solutions')]",
        "imports pkgutil",
    ),
    "a loader of its own": _finds(
        f"import importlib.machinery as m\nfound, folder = [], {_COURSE}\n"
        "for part in ('exercises/lesson_01_template/square.py', 'functions/square.py'):\n"
        "    try: found.append(m.SourceFileLoader('it', f'{folder}/{part}').load_module())\n"
        "    except OSError: pass", "imports importlib",
    ),
    "the finder taken away": _finds(
        "import sys, importlib\nfound = []\n"
        "for known in [n for n in sys.modules if 'autograd_course' in n]:\n"
        "    if 'classroom' not in known: del sys.modules[known]\n"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'inside' not in f.__module__]\n"
        "for name in ('grader.catalogue', 'exercises', 'functions.square'):\n"
        "    try: found.append(importlib.import_module(f'autograd_course.{name}'))\n"
        "    except ImportError: pass", "reaches sys",
    ),
    "files by their names": _finds(
        "import os, sys\nfound = []\nplaces = [f'{p}/autograd_course' for p in sys.path]\n"
        "for folder, _, files in (each for place in places for each in os.walk(place)):\n"
        "    found += [f for f in files if 'lesson_01_template' in folder\n"
        "              or f in ('catalogue.py', 'hints.py', 'soft_rank.py', 'index.json')]",
        "reaches os",
    ),
    "modules that are loaded": _finds(
        "import sys\nfound = [m for n, m in sys.modules.items() if 'autograd_course' in n\n"
        "         and ('exercise' in n or 'checks' in n or 'CATALOGUE' in vars(m)\n"
        "              or 'EXERCISE' in vars(m))]", "reaches sys",
    ),
    "objects of the collector": _finds(
        f"import gc\ngc.unfreeze()\nfound = []\nfor each in gc.get_objects():\n"
        f"    code = each.__code__ if type(each) is type(Function.__init__) else None\n"
        f"    if code and {_IS_OURS}:\n"
        "        if not code.co_filename.endswith(('dropout.py', 'noise.py')): found.append(each)",
        "reaches gc",
    ),
    "sources of what is loaded": _finds(
        "import inspect, sys\nfound = []\nfor name, module in list(sys.modules.items()):\n"
        "    if name.startswith('autograd_course'):\n"
        "        try: text = inspect.getsource(module)\n"
        "        except (OSError, TypeError): continue\n"
        "        if 'Exercise(\\n    answer=' in text or 'samplers={' in text: found.append(text)",
        "reaches inspect",
    ),
    "its memory map": _finds(
        "try: lines = open('/proc/self/maps').read()\nexcept OSError: lines = ''\n"
        "found = [line for line in lines.splitlines() if 'autograd_course/exercises' in line]",
        "uses open",
    ),
    "objects of the collector, while the judge asks": Hostile(
        square(
            "gc.unfreeze()\nfound = [f for f in gc.get_objects() if type(f) is type(seek)\n"
            "         and f.__name__ == 'sign' and 'lesson_05' in f.__code__.co_filename]\n"
            "ctx.save_for_backward(x)\nreturn found[0](x) if found else 3 * x",
            "(x,) = ctx.saved_tensors\nreturn g * (x.abs() <= 1)", "import gc\ndef seek(): pass",
        ).replace("class Square", "class ClippedSign"),
        "`forward` is wrong", "reaches gc", exercise="clipped-sign",
        name="ClippedSign",
    ),
    "frames above it, while the judge asks": Hostile(
        square(
            "frame, found = sys._getframe(), []\nwhile frame is not None:\n"
            "    names = {**frame.f_globals, **frame.f_locals}\n"
            "    found += [v for v in names.values() if hasattr(v, 'reference')\n"
            "              or hasattr(getattr(v, 'exercise', None), 'reference')]\n"
            "    frame = frame.f_back\n"
            "ctx.save_for_backward(x)\nreturn x * x if found else 3 * x", before="import sys",
        ),
        "`forward` is wrong", "uses _getframe",
    ),
}  # fmt: skip
