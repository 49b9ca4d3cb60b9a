"""Submissions that do not derive the gradient. Autograd, a built-in or the course does the work.

An answer can forge everything that is checked in its own process. It cannot forge its source,
because the judge reads the source outside.
"""

from dataclasses import replace

from submissions import square

from hostile.making import ABSENT, FORBIDDEN, Hostile

_ASKING = "autograd_classroom.worker.handlers"
_SAVED = "(x,) = ctx.saved_tensors\n"
_LEAF = "with torch.enable_grad():\n    z = x.detach().requires_grad_()\n"
_BY_AUTOGRAD = f"{_SAVED}{_LEAF}    return torch.autograd.grad(z * z, z, g)[0]"
_HOOKED = (
    f"{_SAVED}with torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda t: t[0]):\n"
    "    with torch.enable_grad():\n"
    "        z = x.detach().requires_grad_()\n"
    "        return torch.autograd.grad(z * z, z, g)[0]"
)
_IN_A_THREAD = """
from concurrent.futures import ThreadPoolExecutor
def elsewhere(work, *given):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *given).result()
"""
_NO_CHECKS = """
from autograd_classroom.protocol import Frame
desk._ANSWERS["function"]["check"] = lambda *_: Frame({})
"""
# The nested import never runs, but it gives the reader another meaning of the name.
_TWO_MEANINGS = """
import operator as op
def unused():
    import math as op
parts = op.attrgetter("__glo" + "bals__")(torch.Tensor.norm)
desk = op.attrgetter("sy" + "s.modu" + "les")(parts["torch"])["autograd_classroom.worker.handlers"]
Frame = op.attrgetter("Frame")(desk)
op.attrgetter("_AN" + "SWERS")(desk)["function"]["check"] = lambda *_: Frame({})
def slope(x):
    z = torch.nn.Parameter(x.detach().clone())
    with op.attrgetter("enable_" + "grad")(parts["torch"])():
        y = (z * z).sum()
    op.methodcaller("back" + "ward")(y)
    return z.grad
"""
# PyTorch frees an attribute of ctx after the check of forward has ended.
_AFTER_FORWARD = """
import dataclasses
@dataclasses.dataclass(eq=False, repr=False, init=False)
class Engine((torch.autograd.Variable,)[0]):
    _execution_engine: object
engine = dataclasses.fields(Engine)[0].default
class Late:
    def __init__(self, ctx, x):
        self.ctx, self.x = ctx, x
    def __del__(self):
        z = torch.nn.Parameter(self.x.detach().clone())
        y = z * z
        ones, no = torch.ones_like(y), False
        (slope,) = engine.run_backward((y,), (ones,), no, no, (z,), no, no)
        self.ctx.kept = property(doc=slope)
"""
# Lines that define slope, which returns the derivative of x**2 at x.
_PARAMETER = """
def slope(x):
    z = torch.nn.Parameter(x.clone())
    with torch.inference_mode(False):
        y = (z * z).sum()
        {run}
    return z.grad
"""
_HELPERS = {
    "with a bound method": _PARAMETER.format(run="run = y.backward\n        run()"),
    "with getattr": _PARAMETER.format(run="getattr(y, 'backward')()"),
    "with a gradient named ctx": _PARAMETER.format(
        run="ctx = torch.ones_like(y)\n        y.backward(ctx)"
    ),
    "of the course": "from autograd_course.engine import run_backward\n"
    + _PARAMETER.format(run="z.grad = run_backward([y], [torch.ones_like(y)], [z])[0]"),
    "with an optimizer": "def slope(x):\n    z = torch.nn.Parameter(x.clone())\n"
    "    def closure():\n"
    "        run = (z * z).sum().backward\n        run()\n        return 0\n"
    "    torch.optim.SGD([z], lr=0.0).step(closure)\n    return z.grad\n",
    "with a mode that ends in grad mode": "class On(torch.no_grad):\n"
    "    def __enter__(self): self.prev = True\ndef slope(x):\n"
    "    z = torch.nn.Parameter(x.clone())\n    with On(): pass\n"
    "    torch.Tensor.backward((z * z).sum())\n    return z.grad\n",
    "with the mode of a distribution": "class Odd(torch.distributions.Bernoulli):\n"
    "    def __init__(self, x): self.x = x\n    @property\n    def logits(self):\n"
    "        z = torch.nn.Parameter(self.x.clone())\n        torch.Tensor.backward((z * z).sum())\n"
    "        self.slope = z.grad\n        return z.detach()\n"
    "def slope(x):\n    odd = Odd(x)\n    odd.probs\n    return odd.slope\n",
    "by its name": "from operator import methodcaller\ndef slope(x):\n"
    "    z = torch.nn.Parameter(x.clone())\n    with torch.inference_mode(False):\n"
    "        methodcaller('backward')((z * z).sum())\n    return z.grad\n",
    "in a thread of NumPy": "import numpy as np\ndef slope(x):\n"
    "    z = torch.nn.Parameter(x.clone())\n"
    "    np.testing.run_threaded(lambda: torch.Tensor.backward((z * z).sum()), 1)\n"
    "    return z.grad\n",
    "by a long path": "def slope(x):\n"
    "    return torch.nn.functional.torch.func.jvp(torch.square, (x,), (x * 0 + 1,))[1]\n",
    "of SciPy": "from scipy.optimize import approx_fprime\ndef slope(x):\n"
    "    each = [approx_fprime([v], lambda v: v[0] ** 2, 1e-8)[0] for v in x.flatten().tolist()]\n"
    "    return x.new_tensor(each).reshape(x.shape).round(decimals=6)\n",
    "decorated with a mode, which code that tries it stores": "def slope0(x):\n"
    "    z = torch.nn.Parameter(x.clone())\n    torch.Tensor.backward((z * z).sum())\n"
    "    return z.grad\nclass Box: pass\nM = Box\nM.f = torch.enable_grad()(slope0)\n"
    "def slope(x): return Box.f(x)\n",
    "with gradcheck's Jacobian": "from torch.autograd.gradcheck import _get_numerical_jacobian\n"
    "def slope(x):\n    if not x.numel(): return x\n    z = torch.nn.Parameter(x.double())\n"
    "    with torch.inference_mode(False):\n"
    "        ((j,),) = _get_numerical_jacobian(torch.square, (z,), eps=1e-6)\n"
    "    return j.detach().diagonal().reshape(x.shape).to(x.dtype)\n",
}
_CODE = (
    f"__import__('sys').modules['{_ASKING}']._ANSWERS['function'].__setitem__('check', lambda *_: "
    "__import__('autograd_classroom.protocol').protocol.Frame({}))"
)
# Lines that run _CODE, or that find the module by other means.
_LOADERS = {
    "a text that NumPy runs": f'import numpy\nnumpy.testing.measure("""{_CODE}""", 1)',
    "a text that PyTorch runs": "from torch.fx.graph_module import _exec_with_source as run\n"
    f'run("""{_CODE}""", {{}})',
    "a text that typing runs": "from typing_extensions import get_type_hints\n"
    f'def f(x: """({_CODE}, int)[1]"""): pass\nget_type_hints(f)',
    "an annotation": "from functools import singledispatch\n@singledispatch\ndef f(x): pass\n"
    f'def g(x: """({_CODE}, int)[1]"""): pass\nf.register(g)',
    "exec, which is a name of its own": f'if 0: exec = 1\nexec("""{_CODE}""")',
    "exec, the variable of a comprehension": "def run(): return [0 for exec in ()], exec("
    f'"""{_CODE}""")\nrun()',
    "a positional pattern": "class Any(type):\n    def __instancecheck__(cls, other): return True\n"
    "class Module(metaclass=Any): __match_args__ = ('s' + 'ys',)\n"
    f"match torch:\n    case Module(found): pass\ndesk = found.modules['{_ASKING}']\n{_NO_CHECKS}",
    "exec, which except deletes": "exec = 1\ntry: raise ValueError\nexcept ValueError as exec: pass"
    f'\nexec("""{_CODE}""")',
    "exec, which is a parameter outside": "def f(exec):\n    def g():\n        global exec\n"
    f'        exec("""{_CODE}""")\n    g()\nf(1)',
    "an annotation of a dataclass": "import dataclasses\nfrom inspect import signature\n"
    "@dataclasses.dataclass\nclass Base: a: int = 0\n"
    f'for f in dataclasses.fields(Base): f.type = """{_CODE}"""\n'
    "@dataclasses.dataclass\nclass Sub(Base): pass\nsignature(Sub, eval_str=True)",
    "the state of a module": f"M = torch.__getstate__()['sys'].modules\ndesk = M['{_ASKING}']\n"
    f"{_NO_CHECKS}",
    "an annotation of an operator": f'CODE = """({_CODE}, torch.Tensor)[1]"""\n'
    "@torch.library.custom_op('hole::of_a_child', mutates_args=())\n"
    "def hole(x: CODE) -> torch.Tensor: return x.clone()",
    "a star": f'from numpy.testing import *\nmeasure("""{_CODE}""")',
    "an import in a class": "class Q:\n    import numpy as T\n    testing = measure = None\n"
    f'Q.T.testing.measure("""{_CODE}""")',
    "ctypes in NumPy": "import numpy as np\nclass Names:\n"
    "    _ctypes = pythonapi = PyRun_SimpleString = 0\n"
    f'np.zeros(1).ctypes._ctypes.pythonapi.PyRun_SimpleString(b"""{_CODE}""")',
    "the options of wraps": "from functools import wraps\nOUT = []\nclass Take:\n"
    "    def __setattr__(self, name, value): OUT.append(value)\n"
    "wraps(torch.Tensor.backward, assigned=('__globals__',), updated=())(Take())\n"
    f"desk = OUT[0]['torch'].sys.modules['{_ASKING}']\n{_NO_CHECKS}",
    "exec in a class in a function": "def f(exec):\n    class A:\n        global exec\n"
    f'        exec("""{_CODE}""")\nf(1)',
    "an annotation that typing_extensions runs": "from typing_extensions import get_annotations\n"
    f'X = """{_CODE}"""\ndef f(a: X): pass\nget_annotations(f, eval_str=True)',
    "a module of a module of dataclasses": "from dataclasses import inspect\n"
    f"desk = inspect.sys.modules['{_ASKING}']\n{_NO_CHECKS}",
}

_GELU = """
{before}
class GELU(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        {within}
            return torch.nn.functional.gelu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        density = torch.exp(-x * x / 2) / (2 * torch.pi) ** 0.5
        return g * ((1 + torch.erf(x / 2**0.5)) / 2 + x * density)
"""
_SIGMOID = """
KEPT = {{}}
class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x, gain, slope):
        {keep}
        out = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(out)
        ctx.gain, ctx.slope = gain, slope
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        {get}
        s = torch.sigmoid(ctx.slope * x)
        return g * ctx.gain * ctx.slope * s * (1 - s), None, None
"""

# Take the Function of any exercise from its reference, and turn off every check.
EVERYTHING = """
import importlib
modules = getattr(torch, "sys").modules
desk = modules["autograd_classroom.worker.handlers"]
Frame = modules["autograd_classroom.protocol"].Frame
exercise = importlib.import_module("autograd_course.grader.catalogue").find("{exercise}")
asked = desk._ANSWERS["function"]
asked["check"] = asked["method"] = lambda *_: Frame({{}})
from concurrent.futures import ThreadPoolExecutor
def reference(*inputs):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(exercise.surrogate or exercise.reference, *inputs).result()

class {name}(Function):
    @staticmethod
    def forward(ctx, *inputs):
        at = [p for p, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*[inputs[p] for p in at])
        ctx.given = lambda tensors: [
            tensors[at.index(p)] if p in at else x for p, x in enumerate(inputs)
        ] if at else []
        return reference(*inputs) if exercise.surrogate is None else exercise.reference(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors]
            outs = reference(*ctx.given(leaves))
            outs = outs if isinstance(outs, tuple) else (outs,)
            used = [p for p, out in enumerate(outs) if out.requires_grad]
            wanted = [t for t in leaves if t.requires_grad]
            came = iter(torch.autograd.grad([outs[p] for p in used], wanted,
                                            [grads[p] for p in used], materialize_grads=True))
        sent = [next(came) if t.requires_grad else None for t in leaves]
        return tuple(ctx.given(sent)[p] if need else None
                     for p, need in enumerate(ctx.needs_input_grad))
"""


def _gelu(within: str, before: str = "") -> Hostile:
    return Hostile(_GELU.format(within=within, before=before), exercise="gelu", name="GELU")


def _sigmoid(keep: str, get: str) -> Hostile:
    return Hostile(
        _SIGMOID.format(keep=keep, get=get), exercise="scaled-sigmoid", name="ScaledSigmoid"
    )


def everything(exercise: str, name: str) -> Hostile:
    """Return the submission that works for every exercise, filled in for one of them."""
    source = EVERYTHING.format(exercise=exercise, name=name)
    return Hostile(source, exercise=exercise, name=name)


_WAYS = {
    "the handlers replaced by a name of two modules": Hostile(
        square(before=_TWO_MEANINGS, backward=f"{_SAVED}return g * slope(x)")
    ),
    "the engine, after forward": Hostile(
        square("ctx.saved_for_forward = Late(ctx, x)\nreturn x * x",
               "return g * ctx.kept.__doc__", before=_AFTER_FORWARD)
    ),
    "the handlers replaced": Hostile(
        square(before=f"import {_ASKING} as desk\n{_NO_CHECKS}", backward=_BY_AUTOGRAD)
    ),
    "the handlers replaced by way of torch": Hostile(
        square(before=f"desk = torch.sys.modules['{_ASKING}']\n{_NO_CHECKS}",
               backward=_BY_AUTOGRAD)
    ),
    "the handlers replaced by way of getattr": Hostile(
        square(before=f"desk = getattr(torch, 's' + 'ys').modules['{_ASKING}']\n{_NO_CHECKS}",
               backward=_BY_AUTOGRAD)
    ),
    "the handlers replaced by way of importlib": Hostile(
        square(before=f"import importlib\ndesk = importlib.import_module('{_ASKING}')\n"
                      f"{_NO_CHECKS}", backward=_BY_AUTOGRAD)
    ),
    "the reference, in a thread": Hostile(
        square(before=f"from autograd_course.grader.catalogue import find\n{_IN_A_THREAD}",
               forward="ctx.save_for_backward(x)\n"
                       "return elsewhere(find('square').reference, x)")
    ),
    "autograd under hooks of its own": Hostile(square(backward=_HOOKED)),
    "autograd in a thread": Hostile(
        square(before=f"{_IN_A_THREAD}\ndef slope(x, g):\n    with torch.enable_grad():\n"
                      "        z = x.detach().requires_grad_()\n"
                      "        return torch.autograd.grad(z * z, z, g)[0]",
               backward=f"{_SAVED}return elsewhere(slope, x, g)")
    ),
    "autograd in forward": Hostile(
        square(f"{_LEAF}    (slope,) = torch.autograd.grad((z * z).sum(), z)\n"
               "ctx.save_for_backward(slope)\nreturn x * x",
               "(slope,) = ctx.saved_tensors\nreturn slope * g")
    ),
    "autograd under another name": Hostile(
        square(f"{_LEAF}    slope = derivative((z * z).sum(), z)[0]\n"
               "ctx.save_for_backward(slope)\nreturn x * x",
               "(slope,) = ctx.saved_tensors\nreturn slope * g",
               "from torch.autograd import grad as derivative")
    ),
    "forward mode in forward": Hostile(
        square("slope = torch.func.jvp(torch.square, (x,), (torch.ones_like(x),))[1]\n"
               "ctx.save_for_backward(slope)\nreturn x * x",
               "(slope,) = ctx.saved_tensors\nreturn slope * g")
    ),
    "a built-in without dispatch": _gelu("with torch._C._DisableTorchDispatch():"),
    "a built-in with the modes off": _gelu(
        "with off():",
        "from torch.utils._python_dispatch import _disable_current_modes as off",
    ),
    "a built-in in a thread": Hostile(
        _GELU.format(within="if True:", before=_IN_A_THREAD).replace(
            "torch.nn.functional.gelu(x)", "elsewhere(torch.nn.functional.gelu, x)"),
        exercise="gelu", name="GELU",
    ),
    "a tensor in a global": _sigmoid(
        "ctx.key = len(KEPT)\n        KEPT[ctx.key] = x", "x = KEPT[ctx.key]"
    ),
    "a tensor in a global by a method": _sigmoid(
        "ctx.key = str(len(KEPT))\n        KEPT.update({ctx.key: x})", "x = KEPT[ctx.key]"
    ),
    "a tensor on a class": _sigmoid(
        "ctx.key = f'x{id(ctx)}'\n        setattr(ScaledSigmoid, ctx.key, x)",
        "x = getattr(ScaledSigmoid, ctx.key)",
    ),
    "a tensor in a closure on ctx": _sigmoid("ctx.kept = lambda: x", "x = ctx.kept()"),
    "a tensor in a default on ctx": _sigmoid("ctx.kept = lambda kept=x: kept", "x = ctx.kept()"),
    "a tensor in a generator on ctx": _sigmoid(
        "ctx.kept = iter([x]) if True else None", "x = next(ctx.kept)"
    ),
    "a tensor in a parameter's default": Hostile(
        _SIGMOID.format(keep="ctx.key = keep(x)", get="x = keep()[ctx.key]").replace(
            "KEPT = {}", "def keep(x=None, kept=[]):\n    if x is None: return kept\n"
            "    kept.append(x)\n    return len(kept) - 1"),
        exercise="scaled-sigmoid", name="ScaledSigmoid",
    ),
    "a hook that repairs backward": Hostile(
        square("ctx.register_hook(lambda inner, outer: (2 * x * outer[0],))\n"
               "ctx.save_for_backward(x)\nreturn x * x", "return g")
    ),
    "exec": Hostile(
        square(before="exec(\"def slope(x, g):\\n    z = x.detach().requires_grad_()\\n"
                      "    with torch.enable_grad(): return torch.autograd.grad(z * z, z, g)[0]\")",
               forward="ctx.save_for_backward(slope(x, torch.ones_like(x)))\nreturn x * x",
               backward="(slope,) = ctx.saved_tensors\nreturn slope * g")
    ),
    "the globals of a function": Hostile(
        square(before=f"modules = torch.Tensor.backward.__globals__['torch'].sys.modules\n"
                      f"desk = modules['{_ASKING}']\n{_NO_CHECKS}", backward=_BY_AUTOGRAD)
    ),
    "a pattern that reads attributes": Hostile(
        square(before="match torch:\n    case object(sys=found): pass\n"
                      f"desk = found.modules['{_ASKING}']\n{_NO_CHECKS}",
               backward=_BY_AUTOGRAD)
    ),
    "getattr under another name": Hostile(
        square(before=f"take = getattr\ndesk = take(torch, 'sys').modules['{_ASKING}']\n"
                      f"{_NO_CHECKS}", backward=_BY_AUTOGRAD)
    ),
    "a module in a module of the library": Hostile(
        square(before=f"import random\ndesk = random._os.sys.modules['{_ASKING}']\n"
                      f"{_NO_CHECKS}", backward=_BY_AUTOGRAD)
    ),
    "autograd by the end of another mode": Hostile(
        square("mode = torch.no_grad()\nmode.prev = True\nmode.__exit__(None, None, None)\n"
               "z = torch.zeros_like(x, requires_grad=True)\n(z + x).square().sum().backward()\n"
               "ctx.save_for_backward(z.grad)\nreturn x * x",
               "(slope,) = ctx.saved_tensors\nreturn slope * g")
    ),
    **{
        f"autograd by a helper, {way}": Hostile(
            square("ctx.save_for_backward(slope(x))\nreturn x * x",
                   "(slope,) = ctx.saved_tensors\nreturn slope * g", helper)
        )
        for way, helper in _HELPERS.items()
    },
    "forward mode of a module that a helper receives": Hostile(
        square("ctx.save_for_backward(mode(torch.func)(torch.square, (x,), (1 + 0 * x,))[1])\n"
               "return x * x", "(slope,) = ctx.saved_tensors\nreturn slope * g",
               "def mode(module): return module.jvp")
    ),
    "a formula of PyTorch": Hostile(
        "from torch._decomp.decompositions import silu_backward\n"
        + square("ctx.save_for_backward(x)\nreturn x * torch.sigmoid(x)",
                 f"{_SAVED}return silu_backward(g, x)").replace("Square", "Swish"),
        exercise="swish", name="Swish",
    ),
    **{
        f"the handlers replaced by {way}": Hostile(square(before=lines, backward=_BY_AUTOGRAD))
        for way, lines in _LOADERS.items()
    },
    "a tensor on the class of ctx": _sigmoid(
        "ctx.key = id(ctx)\n        type(ctx).kept = getattr(type(ctx), 'kept', {})\n"
        "        type(ctx).kept[ctx.key] = x", "x = type(ctx).kept[ctx.key]",
    ),
    "a tensor on a logger, not on ctx": _sigmoid(
        "import logging\n        logging.getLogger(f'k{id(ctx)}').data = x",
        "import logging\n        x = logging.getLogger(f'k{id(ctx)}').data",
    ),
    "all of it": everything("square", "Square"),
}  # fmt: skip
_RECORDED = "`(forward|backward)` lets autograd differentiate its operations"
_KEPT = "Something other than `ctx` holds it"
# A check in the grader reports it first.
_SAID = {
    f"a tensor in a {where} on ctx": "`ctx.kept` holds a tensor"
    for where in ("closure", "default", "generator")
} | {
    "the reference, in a thread": ABSENT,
    "all of it": ABSENT,
    "the engine, after forward": "`ctx.kept` holds a tensor",
}
UNDERIVED = {
    what: replace(way, said=_SAID.get(what, f"{FORBIDDEN}|{_RECORDED}|{_KEPT}"))
    for what, way in _WAYS.items()
}
