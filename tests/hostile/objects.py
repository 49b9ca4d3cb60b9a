"""Hand over something that is not what it says."""

from submissions import square

from hostile.making import Hostile, half

_LIAR = """
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, '__name__', '') in ('__eq__', 'eq', 'allclose', 'equal', '__bool__'):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})
"""
_AGREES = """
class Agrees(type(torch.autograd.Function)):
    def __instancecheck__(cls, other): return True
    def __subclasscheck__(cls, other): return True
    def __eq__(cls, other): return True
    def __hash__(cls): return 0
"""
_POSES = """
class Poses(type):
    __subclasscheck__ = __instancecheck__ = lambda cls, other: True
    __bases__ = property(lambda cls: (Function,))
class Square(metaclass=Poses): pass
"""
_CHAMELEON = """
class Anything:
    __class__ = type(Function)
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
Square = Anything()
"""
_YES = """
class Yes(float):
    def __eq__(self, other): return True
    __hash__ = float.__hash__
"""
_NAME = """
class Any(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
name = Any('whatever')
"""
_RIGHT = "ctx.save_for_backward(x)\nreturn "


def _returns(value: str, said: str, before: str = "") -> Hostile:
    source = f"{before}\ndef eight_bits(weight):\n    return {value}, weight\n"
    return Hostile(source, said, exercise="eight-bits", name="eight_bits")


OBJECTS = {
    "a class that poses as one": Hostile(_POSES, "is a class but not a Function"),
    "a metaclass that agrees to all": Hostile(
        half(_AGREES).replace("Square(Function)", "Square(Function, metaclass=Agrees)"),
        "gradient of x",
    ),
    "an object that answers all": Hostile(_CHAMELEON, "ended the process"),
    "an apply of its own": Hostile(
        half("").replace("    @", "    apply = classmethod(lambda c, x: x * x)\n    @", 1),
        "no custom Function",
    ),
    "a tensor that lies": Hostile(
        square(f"{_RIGHT}(x * x).as_subclass(Liar)", before=_LIAR), "of type Liar"
    ),
    "the input, changed": Hostile(square(f"{_RIGHT}x.mul_(x)"), "changed its input x in place"),
    "the input's memory": Hostile(square(f"{_RIGHT}x.data.mul_(x)"), "changed its input x"),
    "grad_output's memory": Hostile(
        square(backward="(x,) = ctx.saved_tensors\nreturn g.mul_(2 * x)"), "grad_output in place"
    ),
    "a pickle": _returns("b'\\x80\\x04.'", "of type bytes"),
    "an object that runs when unpickled": _returns(
        "Bomb()", "of type Bomb", "class Bomb:\n    def __reduce__(self): return exec, ('1/0',)"
    ),
    "a list in itself": _returns("ENDLESS", "of type list", "ENDLESS = []\nENDLESS += [ENDLESS]"),
    "a number that equals all": _returns("Yes(1)", "has shape", _YES),
    "a name that equals all": Hostile(
        _NAME, 'no rule is called "whatever"', exercise="name-temperature", name="name"
    ),
    "a type whose name clears the screen": _returns(
        "type('\\x1b[2J\\u202e', (), {})()", r"of type \\x1b\[2J\\u202e;"
    ),
    "a message that cannot be stored": Hostile(
        "raise ValueError('\\x1b[2J\\x07\\u202e\\ud800')",
        r"ValueError: \\x1b\[2J\\x07\\u202e\\ud800",
    ),
    "an error that cannot be told": Hostile(
        "class Mute(Exception):\n    def __str__(self): raise self\nraise Mute",
        "the cell raised Mute: without a message",
    ),
}  # fmt: skip
