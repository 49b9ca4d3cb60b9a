"""The code that the source reader forbids, the code that it remarks on, and the code it ignores."""

from __future__ import annotations

import ast
import linecache
from dataclasses import replace
from typing import Any

import pytest
from answers import ALSO_RIGHT, RIGHT
from behind_the_wall import handed_in
from hostile.underived import UNDERIVED
from submissions import IMPORTS, square

from autograd_course.grader import CATALOGUE
from autograd_course.grader.pipeline import judge
from autograd_course.grader.reading import keep_answer, read, source_of
from autograd_course.grader.verdict import Passed, Verdict, WrongBecause

SQUARE = CATALOGUE["square"]
CHECKPOINT = CATALOGUE["checkpointed-block"]  # its backward runs autograd

FORBIDDEN = {
    "gives several objects the name op": (
        "import operator as op\ndef unused():\n    import math as op\nop.attrgetter('a' + 'b')"
    ),
    "it gives several objects the name op": (
        "import math as op\nimport operator\ndef use(op=1): pass\nop = operator"
    ),
    "it changes KEPT, which outlives the call": (
        "KEPT = {}\ndef forward(ctx, x): KEPT.setdefault(0, x).append(1)"
    ),
    "it changes Box, which outlives the call": (
        "class Box:\n    def read(self): return self\ndef forward(ctx, x): Box.x = x"
    ),
    "it changes box, which outlives the call": (
        "class Box:\n    def read(self): return self\nbox = Box()\ndef forward(ctx, x): box.x = x"
    ),
    "it changes FILLED, which outlives the call": (
        "class Rule:\n    @staticmethod\n    def add(a, b): return a + b\nclass Kept(set): pass\n"
        "FILLED = Kept()\ndef forward(ctx, x): FILLED.add(x)"
    ),
    "it changes Rule, which outlives the call": (
        "seen = []\nclass Rule:\n    @staticmethod\n    def pop(x): return x\n"
        "Rule.pop = seen.append\ndef forward(ctx, x): Rule.pop(x)"
    ),
    "it changes LISTED, which outlives the call": (
        "LISTED = []\ndef forward(ctx, x): list.append(LISTED, x)"
    ),
    "it changes TABLE, which outlives the call": (
        "import torch\nTABLE = {}\ndef f(x):\n    TABLE[0] = torch.zeros(3) + x\n    return TABLE"
    ),
    "it changes self, which outlives the call": (
        "class K:\n    @classmethod\n    def keep(self, x): self.kept = x\nK().keep(1)"
    ),
    "it changes it, which outlives the call": (
        "class K:\n    def __class_getitem__(it, x): it.kept = x\nK[1]"
    ),
    "it uses backward, which lets autograd differentiate, but": (
        "import torch\nclass C(torch.Tensor):\n    def run(self): self.backward()\n"
        "class F(torch.autograd.Function):\n    def backward(ctx, g): return g"
    ),
    "derives C from (torch.Tensor,)[0]": "import torch\nclass C((torch.Tensor,)[0]): pass",
    "uses _execution_engine": (
        "import torch\nclass C(torch.autograd.Variable):\n    _execution_engine: object"
    ),
    "it uses backward, which lets autograd": (
        "import torch\nclass C(torch.Tensor):\n    backward: object"
    ),
    "defines __del__": "class C:\n    def __del__(self): pass",
    "uses tofile": "def f(a): a.tofile('x')",
    "rv_continuous, which lets": "import scipy.stats\nBase = [scipy.stats.rv_continuous]",
    "uses call_method, ": "def f(program): program.graph.call_method('real')",
    "sets node.name, ": "def f(graph):\n    for node in graph.nodes: node.name = 'real'",
    "imports torch.fx, ": "import torch.fx",
    "uses torch.export.export, but this exercise": "import torch\ntorch.export.export(1, ())",
    "sets node.target, ": "def f(node): node.target = 'real'",
    "reaches logging.FileHandler, ": "import logging\nlogging.FileHandler('x', 'w+')",
    "reaches logging.addLevelName, ": "import logging\nlogging.addLevelName(1, 'x')",
    "calls logging.basicConfig with a file": "import logging\nlogging.basicConfig(filename='x')",
    "it reaches os, ": "import os\ndef f(): os.environ.update(x='1')",
    "changes F, ": (
        "import io\nclass F(Function):\n    kept = io.BytesIO()\n"
        "    def forward(ctx, x):\n        F.kept.write(x.numpy().tobytes())\n        return x"
    ),
    "changes LOG, ": (
        "LOG = {}\nclass Key:\n    def __init__(self, x): self.x = x\n"
        "    def __hash__(self): return 1\n    def __eq__(self, other): return True\n"
        "def f(x):\n    LOG[Key(x)] = 1\n    return x"
    ),
    "changes NOTES, ": (
        "NOTES = {}\ndef f(x):\n    NOTES[1] = str(object=x.tolist())\n    return NOTES"
    ),
    "changes TIMES, ": (
        "import time\nTIMES = {}\n"
        "def f(x):\n    TIMES[1] = time.strftime(str(x.tolist()))\n    return TIMES"
    ),
    "changes cls, ": (
        "class Box:\n    rows = {}\n    def __init_subclass__(cls, key, value):\n"
        "        cls.rows[key] = value\n"
        "def f(x):\n    Box.__init_subclass__(1, x)\n    return Box.rows"
    ),
    "its class B defines apply": "class B:\n    def apply(x): pass\nclass F(B): pass",
    "imports ctypes, ": "import ctypes",
    "reaches sys, ": "import sys\nsys.modules",
    "hands on sys, ": "import sys\ndef f(): return vars_of(sys)",
    "imports sys, ": "from sys import modules",
    "imports os, ": "x = 1\nfrom os.path import join",
    "imports autograd_course.grader, ": "from autograd_course import grader",
    "imports autograd_course.functions, the course's own answers": (
        "from autograd_course.functions import Square"
    ),
    "imports autograd_course.lesson.TritonAttention, the course's own answers": (
        "from autograd_course.lesson import TritonAttention, dropped"
    ),
    "uses sys, ": "import torch\ntorch.sys.modules",
    "uses f_back, ": "x = 1\nx.f_back",
    "uses __builtins__, ": "__builtins__",
    "uses __import__, ": "__import__('math')",
    "replaces torch.allclose, ": "import torch\ntorch.allclose = 1",
    "replaces torch.nn.functional.relu, ": "import torch.nn.functional as F\ndel F.relu",
    "calls setattr with a computed name": "setattr(int, 'a' + 'b', 1)",
    "calls getattr with a computed name": (
        "class K:\n    def get(self, name): return getattr(self, name)\nc = K\nc.get(int, 'a')"
    ),
    "it calls getattr with a computed name": (
        "class K:\n    def get(self, name): return getattr(self, name)\ngetattr(K, 'get')(int, 'a')"
    ),
    "hands on getattr, ": "take = getattr",
    "hands on operator.attrgetter, ": "from operator import attrgetter\nmap(attrgetter, 'ab')",
    "reaches os, ": "import tempfile, random\nrandom._os",
    "uses open, ": "open(3, 'wb')",
    "uses register_hook, ": "def hook(x): x.register_hook(print)",
    "uses torch.func.jvp, ": "import torch\ntorch.func.jvp",
    "uses backward, ": "def slope(y): y.backward()",
    "defines apply, ": "class F(Function):\n    apply = classmethod(lambda cls, x: x)",
    "declares global KEPT, ": "def forward(ctx, x):\n    global KEPT\n    KEPT = x",
    "changes kept, ": "KEPT = []\ndef forward(ctx, x):\n    kept = KEPT\n    kept.append(x)",
    "uses exec, ": "if 0: exec = 1\nexec('')",
    "uses eval, ": "def f(): return [0 for eval in ()], eval('')",
    "defines __match_args__, ": "class M: __match_args__ = ('s' + 'ys',)",
    "imports numpy.testing.measure, ": "from numpy.testing import measure",
    "reaches numpy.testing.measure, ": "import numpy\nnumpy.testing.measure('')",
    "imports typing_extensions.get_type_hints, ": "from typing_extensions import get_type_hints",
    "imports inspect, ": "from dataclasses import inspect",
    "replaces a part of torch.x, ": "import torch\ntorch.x[0] = 1",
    "uses inference_mode, ": "def f(x): x.inference_mode(False)",
    "uses torch.optim.SGD, ": "import torch\ndef f(w): return torch.optim.SGD([w]).step",
    "uses __getstate__, ": "import torch\ntorch.__getstate__()",
    "uses pythonapi, ": "class Names: pythonapi = 0\nf(1).pythonapi",
    "calls functools.wraps other than": (
        "from functools import wraps\nwraps(f, assigned=('__globals__',))"
    ),
    "defines __array_interface__, ": "class At:\n    def __array_interface__(self): pass",
    "defines __reduce_ex__, ": "class At:\n    def __reduce_ex__(self, n): pass",
    "uses scipy.optimize.least_squares, ": "from scipy.optimize import least_squares as f\nf(1)",
    "it sets apply, ": "class Square: pass\nSquare.apply = 1",
    "it sets apply, so": "class Square: pass\nsetattr(Square, 'apply', 1)",
    "uses register_prehook, ": (
        "from operator import attrgetter\ndef f(ctx): attrgetter('register_prehook')(ctx)"
    ),
    "uses backward, which lets autograd": (
        "import operator\ndef f(y): operator.methodcaller('backward')(y)"
    ),
    "uses jvp, ": "def f(y):\n    match y:\n        case object(jvp=go): go()",
    "imports * from unheard_of, ": "from unheard_of import *",
    "uses eval, which reaches": "from math import *\neval('')",
    "imports inside of a class, ": "class Q:\n    import numpy as T",
    "uses the name __n, ": "class Q:\n    def go(): return __n.measure('')",
    "imports _Q__n, ": "import numpy.testing as _Q__n",
    "hands on functools.wraps, ": "import functools\nfunctools.partial(functools.wraps)",
    "functools.wraps other than": "import functools\nfunctools.wraps(*f)(g)",
    "wraps other than as @wraps(f)": "from functools import wraps\nwraps(f)(make())",
    "defines __getattribute__, ": "class O:\n    def __getattribute__(self, name): pass",
    "calls numpy.ndarray, ": "import numpy as np\nnp.ndarray((1,), buffer=b)",
    "uses scipy.optimize.fsolve, ": "from scipy.optimize import fsolve\ndef f(x): fsolve(x)",
    "inspect.signature with options": "from inspect import signature\nsignature(*f)",
    "uses Q.text as an annotation": (
        "from torch.library import custom_op\nclass Q: text = ''\n@custom_op('a::b')\n"
        "def f(x: Q.text): pass"
    ),
    "uses T as an annotation": (
        "from torch.library import custom_op\nfrom math import pi as T\nT = ''\n"
        "@custom_op('a::b')\ndef f(x: T): pass"
    ),
    "it changes KEPT, ": (
        "KEPT = {}\ndef keeps(f):\n    def g(ctx, x):\n        KEPT[0] = x\n"
        "        return f(ctx, KEPT[0])\n    return g\nclass F:\n"
        "    @keeps\n    def forward(ctx, x): return x"
    ),
    "it changes REGISTRY, ": (
        "REGISTRY = {}\ndef keeps(name):\n    def wrap(f):\n        def g(ctx, x):\n"
        "            REGISTRY[name] = x\n            return f(ctx, REGISTRY)\n"
        "        return g\n    return wrap\nclass F:\n    @keeps('a')\n"
        "    def forward(ctx, x): return x"
    ),
    "it changes INNER, ": (
        "INNER = []\ndef keeps(f): INNER.append(f)\ndef forward(ctx, x):\n    @keeps\n"
        "    def g(): return x\n    return INNER"
    ),
    "it changes TOOLS, ": (
        "TOOLS = []\ndef keeps(name):\n    def wrap(f): TOOLS.append(f)\n    TOOLS[:] = [wrap]\n"
        "    return wrap\n@keeps('a')\nclass F: pass\ndef backward(ctx, g): return TOOLS"
    ),
    "it uses autograd_course.lesson.peak_bytes, which lets autograd differentiate": (
        "from autograd_course.lesson import peak_bytes\ndef f(x): return peak_bytes(x)"
    ),
    "it uses log_abs_det_jacobian, ": "def f(t, x): return t.log_abs_det_jacobian(x, t(x))",
    "it uses torch.enable_grad, which": (
        "import torch\nclass Cell(torch.nn.RNN):\n    @staticmethod\n"
        "    def check_forward_args(): torch.enable_grad()"
    ),
    "it changes KINDS, ": (
        "import torch\nKINDS = []\nclass F(torch.autograd.Function):\n"
        "    def __init_subclass__(cls): KINDS.append(cls)\n"
        "    def forward(ctx, x):\n        class G(F): kept = x\n        return KINDS[-1].kept"
    ),
    "it changes INSIDE, ": (
        "INSIDE = []\nclass F:\n    if True:\n        def forward(ctx, x): INSIDE.append(x)\n"
        "    last = INSIDE"
    ),
    "it changes CHAIN, ": (
        "import collections\nREST = {}\nCHAIN = collections.ChainMap(REST)\n"
        "def forward(ctx, x): CHAIN[0] = x\ndef backward(ctx, g): return REST[0]"
    ),
    "it changes ONE, ": (
        "ONE = OTHER = []\ndef forward(ctx, x): ONE.append(x)\n"
        "def backward(ctx, g): return OTHER[0]"
    ),
    "it changes INNER_NAME, ": (
        "OTHER = (INNER_NAME := [])\ndef forward(ctx, x): INNER_NAME.append(x)\n"
        "def backward(ctx, g): return OTHER[0]"
    ),
    "it changes LOOP, ": (
        "for LOOP in ([],): pass\ndef forward(ctx, x): LOOP.append(x)\n"
        "def backward(ctx, g): return LOOP[0]"
    ),
    "it changes CASE, ": (
        "match []:\n    case CASE: pass\ndef forward(ctx, x): CASE.append(x)\n"
        "def backward(ctx, g): return CASE[0]"
    ),
    "it changes ASKED, ": (
        "ASKED = set()\ndef forward(ctx, x): ASKED.add(x)\ndef backward(ctx, g): return g in ASKED"
    ),
    "it changes seen, which outlives": (
        "import time\nseen = []\ndef f(x):\n    begun = time.time()\n    begun = x\n"
        "    seen.append(begun)\n    return seen"
    ),
    "it changes sums, which outlives": (
        "sums = []\ndef f(x):\n    a = 1\n    b = 2\n    for _ in x:\n        a = a + b + a\n"
        "        b = a + b + b\n    sums.append(a)\n    return sums"
    ),
    "it changes times, which outlives": (
        "times = {}\nclass T: shape = None\ndef f(x):\n    times[0] = x.shape\n    return times"
    ),
    "uses gi_code, ": "class Q: gi_code = None\ndef f(g): return g.gi_code",
    "uses numpy.linalg.test, which runs files": "import numpy as np\nnp.linalg.test()",
    "calls the type of an object": "type(int)('A', (), {})",
    "defines __dict__, ": "class O: __dict__ = {}",
    "changes TABLE, ": "TABLE = [[1]]\ndef f(x): TABLE[0].__setitem__(0, x)",
    "uses gi_frame, ": "def f(g): return '{0.gi_frame}'.format(g)",
    "uses CODE as an annotation, ": (
        "import torch\nCODE = 'eval'\n@torch.library.custom_op('a::b')\ndef f(x: list[CODE]): pass"
    ),
    "computes an annotation, ": (
        "from torch.library import triton_op\ndef f(x: 'a' + 'b') -> None: triton_op"
    ),
    "uses load_library, ": "import torch\ntorch.ops.load_library('a.so')",
    "uses autograd_course.lesson.build, which compiles C++": (
        "from autograd_course.lesson import build\nbuild('')"
    ),
    "uses torch.func.grad, ": (
        "import torch\ndef f(x): return torch.backends.cudnn.torch.func.grad(x)"
    ),
    "uses torch.autograd.grad, ": (
        "import torch\ndef f(y, x): return getattr(torch.autograd, 'grad')(y, x)"
    ),
    "uses torch.ops.aten.silu_backward, which computes a gradient with PyTorch's own formula": (
        "import torch\ndef f(g, x): return getattr(torch.ops.aten, 'silu_backward')(g, x)"
    ),
    "reaches io, ": "import torch\ndef f(): return torch.backends.cudnn.torch.serialization.io",
    "sets self.slope, which may change a library": (
        "import torch\nself = [torch.nn][0]\nself.slope = 1"
    ),
    "sets m.slope, which may change a library": (
        "import torch\ndef f(h):\n    for m in [torch.optim]:\n        m.slope = h"
    ),
    "sets owner.slope, which may change a library": (
        "import torch\ndef put(owner, value): owner.slope = value\nput(torch.nn, 1)"
    ),
    "sets self.__enter__, which may change a library": (
        "def f():\n    self = make()\n    self.__enter__ = print"
    ),
    "uses torch.set_grad_enabled, ": (
        "import torch\ndef f():\n    self = torch.set_grad_enabled(False)\n    self.mode = True"
    ),
    "uses contextlib.AsyncExitStack, ": (
        "import contextlib\ndef f(mode): contextlib.AsyncExitStack().push(mode)"
    ),
    "uses torch.autograd.gradcheck, ": (
        "from torch.autograd import gradcheck as c\ndef f(g, x): return c(g, x)"
    ),
    "uses torch.distributions.Beta, ": (
        "import torch\nfor D in [torch.distributions.Beta]:\n    class M(D):\n"
        "        def total(self): return super(D, self).entropy()"
    ),
    "uses torch.distributions.Gamma, ": (
        "from torch.distributions import Gamma\nclass M(Gamma): _natural_params = ()"
    ),
    "uses torch.library.custom_op, but this exercise does not ask for an operator": (
        "from torch.library import custom_op as op\n@op('a::b', mutates_args=())\ndef f(x): pass"
    ),
    "uses torch.library.impl, ": (
        "import torch\nlibrary = torch.library\nlibrary.impl('aten::silu', 'CPU')"
    ),
    "it changes d, which outlives the call": (
        "def make():\n    d = {}\n    def put(k, v): d[k] = v\n    return put, d.get\n"
        "put, get = make()"
    ),
    "it declares nonlocal last, ": (
        "def make():\n    last = None\n    def put(v):\n        nonlocal last\n"
        "        last = v\n    return put\ndef start(): return make()\nput = start()"
    ),
    "it changes seen, ": (
        "def log(name):\n    seen = []\n    def keeps(f): return lambda *a: seen.append(a)\n"
        "    return keeps\nclass F:\n    @log('a')\n    def forward(ctx, x): pass"
    ),
    "it hands out d.append, ": "def make(d):\n    return d.append, d.copy\nput, get = make([])",
    "but torch.classes hides what this is": "import torch\ndef f(): torch.classes.a.b",
    "reaches torch.jit.CompilationUnit, which runs code": (
        "import torch\nunit = torch.jit.CompilationUnit('')"
    ),
    "changes G, ": "G = make()\ndef forward(ctx, x): torch.add(x, 0, out=G)",
}
REMARKED = {
    "reads calls, which may count the calls (line 5)": (
        "calls = 0\ndef forward(ctx, x):\n    global calls\n    calls += 1\n"
        "    return x if calls == 9 else 2 * x"
    ),
    "reads Box.n, which may count the calls (line 4)": (
        "class Box: n = 0\ndef forward(ctx, x):\n    Box.n += 1\n"
        "    return x if Box.n == 9 else 2 * x"
    ),
    "uses log, which is made once for all calls (line 6)": (
        "log = []\ndef backward(ctx, g):\n    frozen = not ctx.needs_input_grad[0]\n"
        "    log.append({'frozen': 'yes' if frozen else 'no', 'rows': len(g.shape)})\n"
        "    log.append(str(g.size(0)))\n    return log"
    ),
    "uses torch.classes.a, which torch.classes creates when code reads it (line 2)": (
        "import torch\ntorch.classes.a"
    ),
    "keeps results from call to call (line 3)": (
        "from functools import cached_property\nclass Grid:\n    @cached_property\n"
        "    def rows(self): return make()\nclass F:\n    grid = Grid()\n"
        "def f(x): return F.grid.rows"
    ),
    "uses F.shelf, which is made once for all calls (line 9)": (
        "class Shelf:\n    def __init__(self): self.rows = {}\n"
        "    def lay(self, key, row): self.rows[key] = row\nclass F(Function):\n"
        "    shelf = Shelf()\n    @staticmethod\n    def forward(ctx, x):\n        y = x * x\n"
        "        F.shelf.lay(1, x)\n        return y"
    ),
    "uses F.rows, which is made once for all calls (line 7)": (
        "def lay(rows, x): pass\nclass F(Function):\n    rows = []\n    @staticmethod\n"
        "    def forward(ctx, x):\n        y = x * x\n        lay(F.rows, x)\n        return y"
    ),
    "uses attributes of ctx whose names the source does not show (line 4)": (
        "class F(Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        vars(ctx).update({'n' * 1: 2})\n        return x * ctx.n"
    ),
    "sets an environment variable (line 2)": "import os\nos.environ['PYTHONHASHSEED'] = '0'",
    "uses .second, which no tensor and no class of the answer has (line 4)": (
        "from torch.utils.data import Dataset\nclass Row(Dataset): pass\n"
        "def f(x):\n    return Row().second"
    ),
    "uses ._run, which no tensor and no class of the answer has (line 2)": (
        "class Q: _run = None\n(make,)[0]._run('')"
    ),
    "uses sklearn.datasets.fetch_openml: objects from a file (line 2)": (
        "import sklearn.datasets\nsklearn.datasets.fetch_openml()"
    ),
    "sets ctx.slope (line 2)": "ctx = make()\nctx.slope = 1",
    "sets self.slope (line 3)": (
        "class F:\n    def go(self):\n        self.slope = 1\nF.go([make][0])"
    ),
    "sets self.kept (line 3)": (
        "from functools import partial\nclass K:\n    def go(self, x): self.kept = x\n"
        "    of = partial(go, K)\nK.of(1)"
    ),
    "sets self.kept (line 5)": (
        "def to_other(f): return lambda self, x: f(Other, x)\nclass K:\n    first = 1\n"
        "    @to_other\n    def go(self, x): self.kept = x\nk = K()\nk.go(1)"
    ),
    "sets self.kept (line 6)": (
        "class K:\n    def go(self, x=1):\n        'With one argument, K.go gets another self.'\n"
        "        if x is None:\n            return\n        self.kept = x\nK.go(Other)"
    ),
    "keeps a table of constants from call to call in MASKS (line 5)": (
        "import torch\nMASKS = {}\ndef mask(n):\n    if n not in MASKS:\n"
        "        MASKS[n] = -torch.ones(n, n).tril(diagonal=1)[None]\n    return MASKS[n]"
    ),
    "keeps a table of constants from call to call in F (line 6)": (
        "import torch\nclass F:\n    steps = {}\n    def forward(ctx, x):\n"
        "        n = torch.arange(len(x))\n"
        "        F.steps.setdefault(len(x), n[:, None] - n)"
    ),
    "calls layer.backward: it may be the method of a tensor (line 6)": (
        "import torch\nclass Double:\n    def backward(self, g): return 2 * g\n"
        "class F(torch.autograd.Function):\n    def backward(ctx, g):\n"
        "        for layer in ctx.layers: g = layer.backward(g)\n        return g"
    ),
    "uses attributes of ctx whose names the source does not show (line 2)": (
        "def forward(ctx, x, **given):\n    for name in given: setattr(ctx, name, given[name])"
    ),
    "uses attributes of ctx whose names the source does not show (line 1)": (
        "def forward(ctx, x, **options): ctx.__dict__.update(options)"
    ),
    "uses attributes of self whose names the source does not show (line 2)": (
        "class K:\n    def get(self, name): return getattr(self, name)\nk = K()\nk.get('a')"
    ),
    "sets ctx.slope (line 1)": "def put(ctx): ctx.slope = 1\nput(make())",
    "sets self.kept (line 4)": (
        "class F:\n    def go(self, x):\n        self = x[0]\n        self.kept = 1"
    ),
    "yields in `with mode`, so it can change the grad mode (line 2)": (
        "def late(mode):\n    with mode:\n        yield"
    ),
    "hands on KEPT.append, which changes an object (line 2)": "KEPT = []\nput = KEPT.append",
    "it changes d, which outlives the call: pass what `backward` needs to "
    "`ctx.save_for_backward` (line 4)": (
        "def pair(f): return (f,)\ndef make():\n    d = {}\n    def put(v): d[0] = v; return d\n"
        "    return pair(put)\n(put,) = make()"
    ),
    "divides by h, as a finite difference does (line 3)": (
        "def d(x):\n    for h in (1e-30,):\n        return x / h"
    ),
    "divides by step, as a finite difference does (line 1)": (
        "def d(x): return [x / step for k, step in ((1, 0.5), (2, 1e-3))]"
    ),
    "divides by 2 * h, as a finite difference does (line 2)": (
        "import torch\ndef d(x, h): return torch.divide(x, 2 * h)\na = d(1, 0.01)"
    ),
    "divides by 1e-20, as a finite difference does (line 2)": (
        "from torch import div as over\ndef d(x): return over(x, other=1e-20)"
    ),
    "multiplies by 1000000.0, as a finite difference does (line 2)": (
        "import operator\ndef d(x): return operator.mul(1e6, x)"
    ),
    "multiplies by 10000.0, as a finite difference does (line 1)": (
        "def d(x): return x.sub(1, alpha=1e4)"
    ),
    "uses deriv, which differentiates a polynomial (line 2)": (
        "import numpy as np\ndef d(): return np.poly1d([1.0, 0.0]).deriv()"
    ),
    "uses polyder, which differentiates a polynomial (line 1)": "from numpy import polyder as p",
    "sets Q.….slope (line 2)": "class Q: T = make()\nQ.T.slope = 1",
    "uses TABLE, which is made once for all calls (line 2)": (
        "TABLE = [1]\ndef f(x): return Spy(x) == TABLE"
    ),
    "imports contextlib.ExitStack: calls that the source does not show (line 1)": (
        "from contextlib import ExitStack"
    ),
    "formats a text that the source does not show (line 1)": "def f(a, x): a.format(x)",
    "hands F to put, which sets attributes of it (line 4)": (
        "class F: pass\ndef put(self):\n    self.a = 1\nput(F)"
    ),
    "imports atexit: no answer needs it (line 1)": "import atexit",
    "imports torch.storage: no answer needs it (line 1)": "from torch.storage import cast",
    "reaches numpy.f2py: no answer needs it (line 2)": "import numpy as np\nnp.f2py",
    "hands on the module torch.func (line 2)": "import torch\nf(torch.func)",
    "imports functools.singledispatch: names that the source does not show (line 1)": (
        "from functools import singledispatch"
    ),
    "matches attributes whose names the pattern does not show (line 2)": (
        "match 1:\n    case Own(x): pass"
    ),
    "uses .measure, which no tensor and no class of the answer has (line 1)": "f(1).measure('')",
    "computes an annotation (line 1)": "def f(x: 'a' + 'b'): pass",
    "sets m.manual_seed (line 1)": "def put(m): setattr(m, 'manual_seed', 1)",
    "divides by 2 * h, as a finite difference does (line 1)": "def d(f, h=1e-6): f(h) / (2 * h)",
    "calls type to create a class (line 1)": "type('A', (), {})",
    "defines A with metaclass= (line 1)": "class A(metaclass=M): pass",
    "derives A from contextlib.redirect_stdout (line 2)": (
        "import contextlib\nclass A(contextlib.redirect_stdout): pass"
    ),
    "divides by 10 ** (-4), as a finite difference does (line 1)": "def d(x): return x / 10 ** -4",
    "divides by h, as a finite difference does (line 2)": "h = 1e-3\ndef d(x): return x.div(h)",
    "multiplies by n, as a finite difference does (line 2)": "n = 1e6\ndef d(x): return n * x",
    "multiplies by 2 ** 16, as a finite difference does (line 1)": "def d(x): x *= 2 ** 16",
    "uses D, which is made once for all calls (line 2)": (
        "D = torch.nn.ModuleDict()\ndef slope(x): return D['f'](x)"
    ),
    "reaches torch.nested: no answer needs it (line 2)": "import torch\ntorch.nested.nested_tensor",
    "uses torch._foreach_add, which is private (line 2)": "import torch\ntorch._foreach_add",
    "uses KEPT, which is made once for all calls (line 2)": "KEPT = []\ndef f(x): put(KEPT, x)",
    "sets x.kept (line 1)": "def f(x): x.kept = 1",
    "keeps results from call to call (line 2)": "import functools\n@functools.cache\ndef f(): pass",
}
# Code that an honest answer may well contain.
ALLOWED = {
    "own methods with the names of a list's or a tensor's": (
        "class Rule:\n    @staticmethod\n    def pop(x, g): return 2 * x * g\n"
        "    @classmethod\n    def abs_(cls, x): return x.abs()\n"
        "class Scale:\n    def __init__(self, factor): self.factor = factor\n"
        "    def add(self, x): return x + self.factor\n"
        "scale = Scale(2)\n"
        "def backward(ctx, g): return scale.add(Rule.pop(Rule.abs_(ctx.saved_tensors[0]), g))"
    ),
    "own fields named like modules": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Grads:\n"
        "    ga: float\n    gb: float\n    gc: float\n"
        "def backward(ctx, g):\n    found = Grads(g, g, g)\n    return found.ga, found.gb, found.gc"
    ),
    "classes that code shows or compares, and new objects of the own class": (
        "def show(x, y):\n    print(x.__class__, f'{x.__class__}', x.__class__.__qualname__)\n"
        "    return x.__class__ is y.__class__\n"
        "class Dual:\n    def __init__(self, a): self.a = a\n"
        "    def __add__(self, other): return type(self)(self.a + other.a)\n"
        "    def __neg__(self): return self.__class__(-self.a)\nDual(1) + -Dual(2)"
    ),
    "attributes of ctx by their names": (
        "import torch\nclass F(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x, n):\n        vars(ctx).update(n=n)\n"
        "        ctx.__dict__['m'] = n\n        return x\n"
        "    @staticmethod\n    def backward(ctx, g): return vars(ctx)['n'] * ctx.m * g, None"
    ),
    "tables of numbers": (
        "import math\nfrom typing import NamedTuple\nPI = math.pi\n"
        "TABLE = {'a': 1 / (2 * PI) ** 0.5, 'b': math.sqrt(2)}\n"
        "class Setting(NamedTuple):\n    factor: float = 2.0\nSETTING = Setting()\n"
        "def forward(ctx, x): return x * TABLE['a'] * SETTING.factor"
    ),
    "own attributes named like what differentiates": (
        "import torch\nclass F(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.vjp = ctx.jacobian = ctx.prev = ctx.os = 2\n        return x * ctx.os\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return ctx.jacobian * ctx.vjp * g"
    ),
    "own helpers named like what differentiates": (
        "import torch\nclass Rule:\n    def apply(self, x): return 2 * x\n"
        "    @staticmethod\n    def backward(x, g): return 2 * x * g\n"
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n    def backward(ctx, g): return Rule.backward(ctx.saved_tensors[0], g)"
    ),
    "fields named like what differentiates": (
        "from typing import NamedTuple\nclass Row(NamedTuple):\n    jacobian: float\n"
        "def backward(ctx, g):\n    rows = [Row(2)]\n    return [row.jacobian * g for row in rows]"
    ),
    "functions with one name": (
        "import torch\nfrom math import exp, sqrt\nfrom torch import exp\n"
        "def f(x):\n    sqrt = torch.sqrt\n    return exp(sqrt(x))"
    ),
    "a module and a number with one name": "import time\ndef f():\n    time = 3\n    return time",
    "a counter that code only prints": (
        "calls = 0\nclass Box: n = 0\ndef forward(ctx, x):\n    global calls\n    calls += 1\n"
        "    Box.n += 1\n    print(calls, Box.n)\n    print(f'{calls} {Box.n}')"
    ),
    "a log that nothing reads": (
        "from collections import defaultdict\nseen = []\nlast = {}\nall_of = defaultdict(list)\n"
        "def forward(ctx, x):\n    seen.append(x.sum())\n    last['x'] = x.mean()\n"
        "    all_of[0] = x"
    ),
    "a registry": (
        "REGISTRY = {}\ndef register(name):\n    def wrap(cls):\n        REGISTRY[name] = cls\n"
        "        return cls\n    return wrap\n@register('a')\nclass A: pass\n"
        "@register('b')\nclass B: pass"
    ),
    "a registry of derived classes": (
        "import torch\nKINDS = {}\nclass F(torch.autograd.Function):\n"
        "    def __init_subclass__(cls, **options):\n        KINDS[cls.__name__] = cls\n"
        "        super().__init_subclass__(**options)\nclass G(F): pass"
    ),
    "tables of constants": (
        "import math\nfrom torch import Tensor\nA = [0.5, 1 / 3, math.sqrt(2), float('inf')]\n"
        "def keep(x): return x\nHOW = {'a': keep, 'b': -(2.0 ** -23)}\n"
        "def f(x):\n    half, third, root, _ = A\n"
        "    return HOW['a'](x) * half, x.new_tensor(A), [*A], list(HOW.keys())"
    ),
    "a linked list": "class Node:\n    prev = None\ndef f(node):\n    return node.prev",
    "the learner's own operator": "import torch\ndef f(x): return torch.ops.exercises.sums(x)",
    "a namespace of a module": "import types\nsaved = types.SimpleNamespace(rows=1)",
    "a logger": "import logging\nlogging.getLogger('square').debug('%s', 1)",
    "a variable named like an import": (
        "from torch.autograd import grad\nimport copy\ndef backward(ctx, grad):\n"
        "    copy = grad - 1\n    return [grad * 2 for grad in (copy, grad)]\n"
        "f = lambda grad: grad.sum()"
    ),
    "a method of the base class": (
        "from torch.autograd import Function\nclass Base(Function):\n"
        "    def backward(ctx, g): return g\nclass Own(Base):\n"
        "    def backward(ctx, g): return super(Own, Own).backward(ctx, g)"
    ),
    "the sum of two tensors": "import torch\nT = torch.tensor(0.5)\ndef f(x): return T.add(x)",
    "a counter": "class Count:\n    calls = 0\ndef forward(ctx, x): Count.calls += 1",
    "a global counter": "n = 0\ndef forward(ctx, x):\n    global n\n    n += 1",
    "a registry of classes": (
        "KNOWN = {}\ndef register(cls):\n    KNOWN['it'] = cls\n    return cls\n"
        "@register\nclass F: pass"
    ),
    "settings of PyTorch": (
        "import torch\nprint(torch.backends.cudnn.enabled, torch.backends.cudnn.version())"
    ),
    "helpers that get ctx": (
        "from torch.autograd import Function\ndef keep(ctx, x): ctx.n = len(x)\n"
        "def both(ctx, x):\n    keep(ctx, x)\n    ctx.k = 1\nclass F(Function):\n"
        "    def forward(ctx, x):\n        both(ctx, x)\n        return x\n"
        "    setup_context = staticmethod(both)\nclass G(F):\n"
        "    def forward(context, x): return F.forward(context, x)"
    ),
    "a log": (
        "import time\nfrom collections import Counter\nLOG, TIMES, SEEN = [], {'f': 0.0}, set()\n"
        "COUNTS = Counter()\ndef forward(ctx, x):\n    start = time.time()\n"
        "    COUNTS.update(['forward'])\n    SEEN.add(tuple(x.shape))\n"
        "    LOG.append([x.size(), x.dim(), x.device])\n    LOG.append(f'{x.shape} {x.dtype}')\n"
        "    TIMES['f'] += time.time() - start\n"
        "    TIMES.setdefault('all', []).append(time.time() - start)"
    ),
    "objects that do not change": (
        "import torch\nfrom dataclasses import dataclass\nfrom types import SimpleNamespace\n"
        "@dataclass(frozen=True)\nclass Rule:\n    power: int\nRULE = Rule(2)\n"
        "OPS = SimpleNamespace(square=torch.square, double=lambda s: 2 * s)\n"
        "TABLE = {'square': torch.square}\nclass Twice:\n    def __call__(self, x): return 2 * x\n"
        "twice = Twice()\ndef forward(ctx, x):\n"
        "    return OPS.square(x) * RULE.power, twice(x), TABLE['square'](x)"
    ),
    "a flag on a function": "def f(x): return x\nf.traced = True",
    "an optional module": (
        "try:\n    import matplotlib.pyplot as plt\nexcept ImportError:\n    plt = None\n"
        "if plt is not None: pass"
    ),
    "a function by its name": "import torch\ndef f(x): return getattr(torch, 'mul')(x, x)",
    "the name of an argument": (
        "import inspect\ndef f(g): return [*inspect.signature(g).parameters][0]"
    ),
    "layers": (
        "class Layer:\n    def forward(self, x):\n        self.x = x\n        return 2 * x\n"
        "layers = [Layer(), Layer()]\nx = 1\nfor layer in layers: x = layer.forward(x)"
    ),
    "methods with decorators": (
        "import functools, torch\ndef timed(f):\n    @functools.wraps(f)\n"
        "    def run(*args, **given):\n        print(f.__name__)\n"
        "        return f(*args, **given)\n    return run\n"
        "def named(name):\n    def decorate(f):\n        print(name)\n"
        "        def run(ctx, x): return f(ctx, x)\n        return run\n    return decorate\n"
        "class F(torch.autograd.Function):\n    @staticmethod\n    @timed\n"
        "    def forward(ctx, x):\n        ctx.n = 1\n        return x\n    @staticmethod\n"
        "    @named('F')\n    @torch.no_grad()\n    def backward(ctx, g):\n        ctx.k = 1\n"
        "        return g"
    ),
    "a ctx of its own": (
        "class Ctx: pass\nclass F:\n    def forward(ctx, x): ctx.n = 1\n"
        "ctx = Ctx()\nF.forward(ctx, 1)\nF.forward(Ctx(), 1)"
    ),
    "a density": (
        "import torch\nNormal = torch.distributions.Normal\n"
        "def f(x): return Normal(0.0, 1.0).log_prob(x), torch.distributions.Beta(x, x).entropy()"
    ),
    "a closure that changes its own variables": (
        "def power(n):\n    calls = 0\n    def f(x):\n        nonlocal calls\n"
        "        calls += 1\n        parts = []\n        parts.append(x ** n)\n"
        "        return parts[0]\n    return f\nsquare = power(2)"
    ),
    "closures in a call": (
        "def forward(ctx, x):\n    last, rows = x, []\n    def step(z):\n"
        "        nonlocal last\n        last = z\n        rows.append(z)\n        return z\n"
        "    list(map(step, x))\n    return step(x), step"
    ),
    "a table": (
        "def make(n):\n    rows = []\n    def visit(k): rows.append(k)\n"
        "    for k in range(n): visit(k)\n    list(map(visit, range(n)))\n"
        "    return tuple(rows)\nTABLE = make(3)"
    ),
    "its own derivative": (
        "def derivative(x): return 2 * x\nclass F:\n    def deriv(x): return 2 * x\n"
        "def f(x):\n    for n, slope in ((2, 0.5), (3, 1.5)):\n        x = x * n / slope\n"
        "    return F.deriv(x)"
    ),
    "a layer from its class": (
        "import torch\ndef make(layer, n):\n    layer = layer(n, n)\n    layer.bias = None\n"
        "    return layer\nmake(torch.nn.Linear, 3)"
    ),
    "a frozen leaf": "import torch\ndef f(x): return torch.zeros(3, requires_grad=False)",
    "a leaf outside of a function": "import torch\nt = torch.ones(1, requires_grad=True)",
    "grad mode that is off": "import torch\ndef f(x):\n    with torch.set_grad_enabled(False): x",
    "a helper named like a transform": (
        "class F:\n    def jacobian(x): return 2 * x\ndef f(x): return F.jacobian(x)"
    ),
    "a node that is shown": "def f(x):\n    assert x.grad_fn is None\n    print(f'{x.grad_fn=}')",
    "a ctx with another name": (
        "from torch.autograd import Function\nclass F(Function):\n"
        "    def forward(context, x): context.n = 1"
    ),
    "tables that only are read": (
        "import torch\nPOWERS = [1, 2]\nMODES = {'a': lambda x: x}\n"
        "def f(x, k):\n    return torch.tensor(POWERS), MODES[k](x), [p for p in POWERS]"
    ),
    "a namespace": (
        "from types import SimpleNamespace\ndef f(x): return SimpleNamespace(gain=2).gain * x"
    ),
    "the attributes of a namespace": (
        "from types import SimpleNamespace\n"
        "def f(ctx, x):\n    ctx.row = SimpleNamespace(first=1)\n    row = SimpleNamespace()\n"
        "    row.second = x\n    return row.second * ctx.row.first"
    ),
    "an object that finds its own attributes": (
        "class Row(dict):\n    def __getattr__(self, name): return self[name]\n"
        "def f(x):\n    row = Row(second=x)\n    return row.second"
    ),
    "a property that an object of this call keeps": (
        "from functools import cached_property\nclass Grid:\n"
        "    def __init__(self, x): self.x = x\n"
        "    @cached_property\n    def rows(self): return self.x.shape[0]\n"
        "def f(x): return Grid(x).rows"
    ),
    "values and types of Python": (
        "import os, sys, traceback\nfrom io import StringIO\n"
        "from types import MappingProxyType, TracebackType\n"
        "from torch.utils._pytree import tree_map\n"
        "DEBUG = os.environ.get('DEBUG') or os.environ['HOME'] or os.getenv('DEBUG')\n"
        "EPS = sys.float_info.epsilon * sys.version_info.major\n"
        "SCALES = MappingProxyType({'one': 1.0})\n"
        "def f(x):\n    try:\n        print(x, file=StringIO())\n"
        "    except ValueError:\n        traceback.print_exc()\n"
        "    return tree_map(lambda y: y * SCALES['one'], x)"
    ),
    "a method by its name": (
        "from operator import methodcaller\nflip = methodcaller('unsqueeze', -1)"
    ),
    "a frozen object": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Grid:\n    n: int\n"
        "    def __post_init__(self): object.__setattr__(self, 'size', self.n)\n"
        "def f(x): return Grid(2).size"
    ),
    "a decorator that is a context": (
        "from contextlib import ContextDecorator\nclass Timed(ContextDecorator): pass"
    ),
    "tables that a loop computes": (
        "import enum, torch\nclass Kind(enum.Enum):\n    LOW = 1\n"
        "EPS = {d: torch.finfo(d).eps for d in (torch.float32, torch.float64)}\n"
        "BITS = [2**k for k in range(8)]\nBY_NAME = dict(one=1.0)\nKINDS = {'low': Kind.LOW}\n"
        "def f(x): return EPS[x.dtype], BITS[0], BY_NAME['one'], KINDS['low']"
    ),
    "a text with a number in it": "SAYS = 'at {:.3f}, {0[1]}'\ndef f(x): print(SAYS.format(x))",
    "a helper and constants": "EPS = 1e-6\nSIZES = (2, 3)\ndef f(x): return x + EPS * SIZES[0]",
    "a list of its own": "def f(x):\n    parts = []\n    parts.append(x)\n    return parts",
    "numbers on ctx": "def f(ctx, x):\n    ctx.shape, ctx.k = x.shape, 3",
    "an attribute by its name": "def f(ctx): return getattr(ctx, 'scale', 1.0)",
    "another Function": "def f(ctx, g): return Other.backward(ctx, g)",
    "a local variable named like a built-in": "def f(x):\n    vars = x.var()\n    return vars",
    "a function named like a built-in": "def compile(x): return x\ncompile(1)",
    "an array of a tensor": "def f(x): return x.numpy().astype('f8')",
    "a pattern": "match 1:\n    case int(x) | float(x): pass",
    "fields": "class Case:\n    want: int\ndef f(case): return case.want",
    "slots": "class Shape:\n    __slots__ = ('n',)",
    "a message to stderr": "import sys\ndef f(x): print(x, file=sys.stderr)",
    "the name of a type": "def f(x): return type(x).__name__",
    "in-place work on its own tensors": "def f(x):\n    out = x.clone()\n    return out.mul_(2)",
}


@pytest.mark.parametrize(("what", "source"), FORBIDDEN.items(), ids=FORBIDDEN)
def test_what_an_answer_must_not_use_is_named_with_its_line(what: str, source: str) -> None:
    found = read([source], SQUARE)

    assert any(what in str(use) and "(line " in str(use) for use in found.forbidden), found


@pytest.mark.parametrize(("said", "source"), REMARKED.items(), ids=REMARKED)
def test_what_is_neither_used_nor_forbidden_is_remarked_on(said: str, source: str) -> None:
    found = read([source], SQUARE)

    assert not found.forbidden, found
    assert said in [f"{use.what} (line {use.line})" for use in found.remarks]


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED)
def test_what_answers_use_is_not_spoken_of(source: str) -> None:
    found = read([source], SQUARE)

    assert (found.forbidden, found.remarks) == ((), ())


SQUARE_CELL = square().strip()
# Code below an answer that only tries it.
TRIES = {
    "backward": (
        "x = torch.randn(3, requires_grad=True)\nSquare.apply(x).sum().backward()\nprint(x.grad)"
    ),
    "gradcheck": (
        "x = torch.ones(3, dtype=torch.double).requires_grad_()\n"
        "torch.autograd.gradcheck(Square.apply, (x,))"
    ),
    "a test": (
        "def test():\n    x = torch.ones(3, requires_grad=True)\n"
        "    (grad,) = torch.autograd.grad(Square.apply(x).sum(), x)\n"
        "    torch.testing.assert_close(grad, 2 * x)\ntest()"
    ),
    "a test of any Function": (
        "def check(function, x):\n    x = x.clone().requires_grad_()\n"
        "    function.apply(x).sum().backward()\n    return x.grad\n"
        "print(check(Square, torch.ones(3)))"
    ),
    "a generator": (
        "inputs = tuple(torch.randn(n, requires_grad=True) for n in (1, 2))\n"
        "assert all(torch.autograd.gradcheck(Square.apply, x.double()) for x in inputs)"
    ),
    "a class": (
        "class Trainer:\n    def step(self, x):\n        Square.apply(x).sum().backward()\n"
        "Trainer().step(torch.ones(3, requires_grad=True))"
    ),
    "tests in a list": (
        "def test(): Square.apply(torch.ones(3, requires_grad=True)).sum().backward()\n"
        "for each in [test]: each()"
    ),
    "finite differences": (
        "def numerical(f, x, h=1e-6): return (f(x + h) - f(x - h)) / (2 * h)\n"
        "print(numerical(Square.apply, torch.ones(3)))"
    ),
    "the name of a graph node": (
        "y = Square.apply(torch.ones(3, requires_grad=True))\nprint(y.grad_fn.__class__.__name__)"
    ),
    "a module's function": "torch.manual_seed(0)\nif True:\n    torch.ones(3, requires_grad=True)",
    "random numbers of NumPy": "import numpy as np\nprint(np.random.default_rng(0).normal(size=3))",
    "a hook": "x = torch.ones(3, requires_grad=True)\nx.register_hook(print)",
    "errors in a list": (
        "errors = []\ndef collect(x):\n    Square.apply(x).sum().backward()\n"
        "    errors.append(x.grad - 2 * x)\ncollect(torch.ones(3, requires_grad=True))"
    ),
    "a transform": "print(torch.func.grad(lambda x: Square.apply(x).sum())(torch.ones(3)))",
    "an optimizer": (
        "w = torch.nn.Parameter(torch.ones(3))\noptimizer = torch.optim.SGD([w], lr=0.1)\n"
        "Square.apply(w).sum().backward()\noptimizer.step()"
    ),
    "a module": (
        "class Layer(torch.nn.Module):\n    def forward(self, x):\n        return Square.apply(x)\n"
        "Layer()(torch.ones(3, requires_grad=True)).sum().backward()"
    ),
    "NumPy": "import numpy as np\nnp.testing.assert_allclose(Square.apply(torch.ones(3)), 1)",
    "a plot": (
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nx = torch.linspace(0, 1, 9)\n"
        "ax.plot(x, Square.apply(x))\nax.set_title('x²')"
    ),
}
_SLOPE = (
    "def slope(x):\n    z = x.detach().requires_grad_()\n    with torch.enable_grad():\n"
    "        return torch.autograd.grad((z * z).sum(), z)[0]\n"
)
_INNER = _SLOPE.replace("\n", "\n    ")
_PUT = "def put(owner, value): owner.slope = value\n"
_GRAD = "torch.func.grad(lambda z: (z * z).sum())"
# Code around an answer that gives it a derivative of autograd. It is forbidden or remarked on.
_GRAD_OF_SUM = "torch.func.grad(torch.sum)"
_TEST = """\
    @classmethod
    def test(cls):
        x = torch.ones(2, requires_grad=True)
        torch.autograd.grad(cls.apply(x).sum(), x)
        return True
"""
# Methods of the answer's class, code after the class, and whether the methods only try the class.
TESTS_IN_THE_CLASS = {
    "a test": (_TEST, "", True),
    "a test that runs": (_TEST, "Square.test()", True),
    "a test that must return True": (_TEST, "assert Square.test()", True),
    "a method that backward calls": (
        f"    @staticmethod\n    def slope(x): return {_GRAD_OF_SUM}(x)\n",
        "Square.backward = staticmethod(lambda ctx, g: Square.slope(g))",
        False,
    ),
    "a method that returns a function": (
        f"    @staticmethod\n    def slope(): return {_GRAD_OF_SUM}\n",
        "Square.of = Square.slope()",
        False,
    ),
    "a method that sets an attribute": (
        f"    @classmethod\n    def test(cls): cls.slope = {_GRAD_OF_SUM}\n",
        "Square.test()",
        False,
    ),
    "a method that fills a container": (
        "    kept = []\n    @classmethod\n"
        f"    def test(cls):\n        k = cls.kept\n        k.append({_GRAD_OF_SUM})\n",
        "Square.test()",
        False,
    ),
    "a method that PyTorch calls": (
        f"    @staticmethod\n    def jvp(ctx, t): return {_GRAD_OF_SUM}(t)\n",
        "",
        False,
    ),
}

GIVEN_TO_THE_ANSWER = {
    "an attribute": f"Square.slope = {_GRAD}",
    "setattr": f"setattr(Square, 'slope', {_GRAD})",
    "another name of the class": f"c = Square\nc.slope = {_GRAD}",
    "a function that sets it": f"{_PUT}put(Square, {_GRAD})",
    "a function": f"{_SLOPE}{_PUT}put(Square, slope)",
    "a function that a function returns": (
        f"def make():\n    {_INNER}return slope\n{_PUT}put(Square, make())"
    ),
    "an object": (
        f"class Slope:\n    {_INNER.replace('slope(x)', '__call__(self, x)')}pass\n{_PUT}"
        "put(Square, Slope())"
    ),
    "a generator": f"{_SLOPE.replace('return', 'yield')}{_PUT}put(Square, slope(torch.ones(3)))",
    "a decorated function": f"{_PUT}@keep\n{_SLOPE}",
    "a global": f"def slope(x): pass\ndef test():\n    global slope\n    slope = {_GRAD}\ntest()",
    "the name of an import": f"import math as slope\nslope = {_GRAD}",
    "a mode in a list": "KEPT = []\nKEPT.append(torch.enable_grad())",
}


@pytest.mark.parametrize("lines", TRIES.values(), ids=TRIES)
def test_code_that_tries_an_answer_may_use_autograd(lines: str) -> None:
    found = read([IMPORTS, f"{SQUARE_CELL}\n{lines}"], SQUARE, "Square")

    assert (found.forbidden, found.remarks) == ((), ())


@pytest.mark.parametrize(
    ("methods", "lines", "tries"), TESTS_IN_THE_CLASS.values(), ids=TESTS_IN_THE_CLASS
)
def test_a_method_may_use_autograd_if_it_only_tries_its_class(
    methods: str, lines: str, tries: bool
) -> None:
    found = read([IMPORTS, f"{SQUARE_CELL}\n{methods}{lines}"], SQUARE, "Square")

    assert (not found.forbidden) == tries
    assert not (tries and found.remarks)


@pytest.mark.parametrize("lines", GIVEN_TO_THE_ANSWER.values(), ids=GIVEN_TO_THE_ANSWER)
def test_code_does_not_give_autograd_to_an_answer_unnoticed(lines: str) -> None:
    answer = SQUARE_CELL.replace("2 * x", "(slope or Square.slope or KEPT)(x)")

    found = read([IMPORTS, f"{answer}\n{lines}"], SQUARE, "Square")

    assert found.forbidden or found.remarks


UNUSED = {
    "a switch": "VERBOSE = False\ndef set_verbose(flag):\n    global VERBOSE\n    VERBOSE = flag",
    "a context": (
        "from contextlib import contextmanager\nVERBOSE = False\n@contextmanager\n"
        "def verbose():\n    global VERBOSE\n    old, VERBOSE = VERBOSE, True\n    yield\n"
        "    VERBOSE = old"
    ),
}


@pytest.mark.parametrize("around", UNUSED.values(), ids=UNUSED)
def test_a_function_that_the_answer_does_not_call_may_change_a_global(around: str) -> None:
    answer = SQUARE_CELL.replace("2 * x", "(2 + 0 * VERBOSE) * x")
    unused, used = (
        read([IMPORTS, f"{around}\n{answer}{call}"], SQUARE, "Square")
        for call in ("", f"\nChanges = {around.partition('def ')[2].partition('(')[0]}")
    )

    assert (unused.forbidden, unused.remarks) == ((), ())
    assert used.forbidden


# Code around an answer, and the same code without the statements that do not run.
SKIPPED = {
    "import time, timeit; print(timeit.timeit('1')); a = 1": "import time; (); (); a = 1",
    "import ctypes, \\\n    math as m; import time; a = m.pi": (
        "(); import \\\n    math as m; import time; a = m.pi"
    ),
    "é = 'é'; import ctypes; print(é)": "é = 'é'; (); print(é)",
    "import ctypes\nn = ctypes.string_at()\nn = min(n, 4)\nprint(n)": "()\n()\n()\n()",
    "import ctypes\ndel ctypes\nimport math": "()\n()\nimport math",
    "import timeit\nprint(timeit.timeit(\n    '1'\n)); a = 1  # done": (
        "()\n(\n\n); a = 1  # done"
    ),
    "import unittest\n@\\\nunittest.skip\ndef test(): pass\na = 1": "()\n(\n\n)\na = 1",
    "import torch\ndef install():\n    self = [torch.nn][0]\n    self.h = 1\ninstall()": (
        "import torch\n(\n\n)\n()"
    ),
    "@torch.library.custom_op('a::b', mutates_args=())\ndef f(x): pass\nprint(1)": (
        "(\n)\nprint(1)"
    ),
    "import timeit\nfor F in [Square]: print(F, timeit.timeit('1'))": "()\n()",
    "import timeit\ntimes = {}\nfor F in [Square]: times[F] = timeit.timeit('1')": (
        "()\ntimes = {}\n()"
    ),
}


@pytest.mark.parametrize(("source", "left"), SKIPPED.items(), ids=SKIPPED)
def test_what_remains_of_a_cell_is_python_with_the_same_lines(source: str, left: str) -> None:
    found = read([IMPORTS, f"{SQUARE_CELL}\n{source}"], SQUARE, "Square")

    assert found.cells == (IMPORTS, f"{SQUARE_CELL}\n{left}")
    assert ast.parse(found.cells[1])
    assert not found.forbidden


TESTS = """\
import ctypes, timeit
import math; import unittest
class TestSquare(
    unittest.TestCase
): pass
if __name__ == "__main__":
    print(timeit.timeit("1"))
half = math.pi; ctypes.string_at()
"""


def test_code_that_tries_an_answer_does_not_run_if_an_answer_must_not_contain_it() -> None:
    cells = [IMPORTS, f"{TESTS}{SQUARE_CELL}"]
    found = read(cells, SQUARE, "Square")
    passed, wrong = Verdict(Passed()), Verdict(WrongBecause("no."))

    left = "(); ()\nimport math; ()\n(\n\n)\n(\n)\nhalf = math.pi; ()\n"
    assert found.cells == (IMPORTS, f"{left}{SQUARE_CELL}")
    assert (found.forbidden, found.remarks) == ((), ())
    assert found.held_against(passed) == passed
    remark = found.held_against(wrong).remarks[0]
    assert remark.startswith("it was graded without line 1: it imports ctypes, ")


@pytest.mark.parametrize(
    "around",
    [
        "import ctypes, math, timeit\n{}",
        "def check(F): return gradcheck(F.apply, (torch.ones(1, requires_grad=True),))\n"
        "import math\n{}\nif __name__ == '__main__':\n    import traceback\n    try:\n"
        "        print(check(Square))\n    except Exception:\n        traceback.print_exc()",
    ],
)
def test_an_answer_needs_only_some_of_the_imports(around: str) -> None:
    answer = SQUARE_CELL.replace("2 * x", "math.sqrt(4) * x")
    found = read([IMPORTS, around.format(answer)], SQUARE, "Square")

    assert (found.forbidden, found.remarks) == ((), ())
    assert "import math" in found.cells[1]
    assert "timeit" not in found.cells[1]


def test_code_that_the_answer_needs_is_not_left_out() -> None:
    cell = f"import ctypes\nK = ctypes.string_at()\n{SQUARE_CELL.replace('2 * x', 'K * x')}"
    found = read([IMPORTS, cell], SQUARE, "Square")

    assert (found.skipped, found.cells) == ((), (IMPORTS, cell))
    assert [use.line for use in found.forbidden] == [1, 2]


_OPERATOR = "def double(x): return 2 * x\n"
NEEDED = {
    "a change": "T = [1]\nT.append(2)\ndef f(x): return T",
    "a change by a decorator": (
        "T = {}\ndef add(name):\n    def wrap(g): T[name] = g\n    return wrap\n"
        "@add('double')\ndef double(x): return 2 * x\ndef f(x): return T['double'](x)"
    ),
    "methods of a custom operator": (
        f"@torch.library.custom_op('my::double', mutates_args=())\n{_OPERATOR}"
        "@double.register_fake\ndef _(x): return x\n"
        "double.register_autograd(lambda ctx, g: 2 * g)\ndef f(x): return double(x)"
    ),
    "an operator by its name": (
        f"@torch.library.custom_op('my::double', mutates_args=())\n{_OPERATOR}"
        "torch.library.register_fake('my::double', lambda x: x)\n"
        "def f(x): return torch.ops.my.double(x)"
    ),
    "an operator of a library": (
        "torch.library.define('my::double', '(Tensor x) -> Tensor')\n"
        f"@torch.library.impl('my::double', 'cpu')\n{_OPERATOR}"
        "def f(x): return torch.ops.my.double.default(x)"
    ),
}


@pytest.mark.parametrize("source", NEEDED.values(), ids=NEEDED)
def test_an_answer_keeps_what_it_needs(source: str) -> None:
    assert keep_answer([source], "f") == (source,)


def test_an_answer_keeps_nothing_else() -> None:
    source = "print(1)\ndef f(x): return x\nassert f(1) == 1\nt = f(2)"

    assert keep_answer([source], "f") == ("()\ndef f(x): return x\n()\n()",)


@pytest.mark.parametrize(
    ("exercise", "source", "said"),
    [
        (
            "log-sum-exp",
            "import numpy as np\ndef f(x): return np.logaddexp.reduce(x)",
            "numpy.logaddexp.reduce",
        ),
        (
            "log-sum-exp",
            "from scipy.special import logsumexp as g\ndef f(x): g(x)",
            "scipy.special.logsumexp",
        ),
        ("log-sum-exp", "import torch\ndef f(x): return torch.logsumexp(x, 0)", "torch.logsumexp"),
        ("log-sum-exp", "def f(x): return x.logsumexp(0)", ".logsumexp"),
        ("log-sum-exp", "import numpy as np\ndef f(x): return np.log(np.exp(x).sum())", ""),
        ("packed-leaky-relu", "import numpy as np\ndef f(x): np.packbits(x)", "numpy.packbits"),
    ],
)
def test_a_built_in_of_another_library_does_not_replace_the_learner_s_code(
    exercise: str, source: str, said: str
) -> None:
    found = [use.what for use in read([source], CATALOGUE[exercise]).forbidden]

    told = f"it uses {said}, but in this exercise you write it yourself"
    assert (told in found) if said else not found


@pytest.mark.parametrize("line", [
    "rows = x.tolist()", "rows = x.numpy()", "rows = array('d', x)", "rows = np.zeros(3)",
    "rows = x.resize_(9)", "rows = bytearray(9)", "rows = [0.0] * 9",
    "rows = [each.item() for each in x]",
])  # fmt: skip
def test_memory_that_no_check_measures_is_remarked_on_where_it_counts(line: str) -> None:
    source = f"import numpy as np\nfrom array import array\ndef f(x):\n    {line}"

    measured, other = read([source], CATALOGUE["chunked-row-losses"]), read([source], SQUARE)

    assert [use.line for use in measured.remarks] == [4]
    assert "whose memory the grader does not measure" in measured.remarks[0].what
    assert other.remarks == ()


def test_an_operator_is_allowed_where_the_exercise_may_ask_for_one() -> None:
    source = (
        "import torch\nTensors = tuple[torch.Tensor, torch.Tensor]\n"
        "@torch.library.custom_op('a::b', mutates_args=())\n"
        "def f(x: torch.Tensor, n: int | None) -> Tensors: return x, x"
    )
    found = read([source], CATALOGUE["operator-window-sums"])

    assert (found.forbidden, found.remarks) == ((), ())
    for exercise in ("attention-forward", "binary-digits", "soft-threshold-function"):
        assert read([source], CATALOGUE[exercise]).forbidden


def test_autograd_is_allowed_where_the_exercise_allows_it() -> None:
    source = "import torch\ndef f(y, x): return torch.autograd.grad(y, x)"

    assert read([source], SQUARE).forbidden
    assert not read([source], CHECKPOINT).forbidden


# Source code for which reading would take long, or would need too much recursion.
EXCESSIVE = {
    "a long chain": "import torch\ntorch" + 500 * ".a" + " = 1",
    "many long chains": "import torch\n" + 40 * ("torch" + 2_400 * ".a" + "\n"),
    "a long sum": "def forward(ctx, x): ctx.a = " + "0 + " * 3_000 + "0",
    "many imports": "from numpy import *\n" * 2_000,
    "many definitions": "class A:\n    a\n" * 2_500 + "a = 1\n" * 14_000,
    "many modules": "".join(f"import x{n}\n" for n in range(3_000)) + "x.b\n" * 13_000,
    "much of it": "x = 1\n" * 100_000,
    "deep nesting": "(" * 90 + "x" + ")" * 90 + "-" * 3_000 + "1",
}


@pytest.mark.parametrize("source", EXCESSIVE.values(), ids=EXCESSIVE)
def test_source_of_any_size_is_read(source: str) -> None:
    found = read([source, "class Square: pass"], SQUARE, "Square")

    assert all(use.line for use in (*found.forbidden, *found.remarks))


def test_source_that_is_no_python_is_left_to_the_run_and_never_passes() -> None:
    found = read(["def", "\0", "(" * 9999], SQUARE, "Square")

    assert (found.forbidden, found.remarks) == ((), ())
    assert found.held_against(Verdict(WrongBecause("no."))) == Verdict(WrongBecause("no."))
    assert found.held_against(Verdict(Passed())).status == "wrong"


@pytest.mark.parametrize("exercise", RIGHT)
def test_a_solution_is_not_spoken_of(exercise: str) -> None:
    asked = CATALOGUE[exercise]

    for cells in (handed_in("solutions", exercise).cells, source_of(RIGHT[exercise])):
        found = read(cells, asked)
        assert (found.forbidden, found.remarks) == ((), ())


@pytest.mark.parametrize("what", ALSO_RIGHT)
def test_a_right_answer_of_another_kind_loses_no_points(what: str) -> None:
    exercise, answer = ALSO_RIGHT[what]

    assert not read(source_of(answer), CATALOGUE[exercise]).forbidden


# A check, not the source, tells what an answer keeps on ctx.
@pytest.mark.parametrize("what", [what for what in UNDERIVED if not what.endswith("on ctx")])
def test_each_way_around_the_checks_stands_in_the_source(what: str) -> None:
    hostile = UNDERIVED[what]

    assert read([IMPORTS, hostile.source], CATALOGUE[hostile.exercise]).forbidden


def defined(source: str, name: str) -> Any:
    """Run a cell as a notebook does, so that its source lines can be found."""
    lines, there = source.splitlines(keepends=True), {"__name__": "__main__"}
    linecache.cache["<a cell>"] = (len(source), None, lines, "<a cell>")
    exec(compile(source, "<a cell>", "exec"), there)
    return there[name]


def test_grade_reads_the_source_too() -> None:
    slope = "slope = 2 * getattr(x, 'cl' + 'one')()"
    forward = f"{slope}\nctx.save_for_backward(slope)\nreturn x * x"
    source = IMPORTS + square(forward, "(slope,) = ctx.saved_tensors\nreturn slope * g")

    found = judge(SQUARE, defined(source, "Square"))

    assert found.status == "wrong"
    assert "calls getattr with a computed name, which can reach anything" in found.message
    assert f"`{slope}`" in found.message
    assert "An answer must not do that." in found.message


def test_grade_reads_helpers_and_what_their_names_stand_for() -> None:
    source = f"{IMPORTS}import ctypes\nKEPT = []\ndef keep(x):\n"
    source += "    KEPT.append(ctypes.string_at())\n    return KEPT\n" + square(
        "keep(x)\nctx.save_for_backward(x)\nreturn x * x"
    )

    found = read(source_of(defined(source, "Square")), SQUARE)

    assert {use.what.partition(",")[0] for use in found.forbidden} == {
        "it imports ctypes", "it reaches ctypes", "it changes KEPT",
    }  # fmt: skip


def test_a_wrong_answer_keeps_its_verdict() -> None:
    verdict = judge(SQUARE, defined(f"{IMPORTS}{square(backward='return g')}", "Square"))

    found = read(["import ctypes"], SQUARE).held_against(verdict)

    assert replace(found, remarks=()) == replace(verdict, remarks=())
    assert found.remarks == (
        "it imports ctypes, which can show and change what the grader sees (line 1)",
    )
