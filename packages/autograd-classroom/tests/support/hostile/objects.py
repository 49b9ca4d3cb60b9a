"""Submissions that return objects that pretend to be something else."""

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
_NO = """
class No(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("no")
"""
_UNUSUAL = {
    "a sparse tensor": ("(x * x).to_sparse()", "sparse Tensor"),
    "a tensor without numbers": ("(x * x).to('meta')", "meta Tensor"),
    "a quantized tensor": (
        "torch.quantize_per_tensor((x * x).float(), 0.1, 0, torch.qint8)", "quantized Tensor",
    ),
    "a tensor larger than memory": (
        "(x * x).sum().expand(10**12)", "Tensor of 1,000,000,000,000 numbers",
    ),
}  # fmt: skip
_RIGHT = "ctx.save_for_backward(x)\nreturn "


def _returns(value: str, said: str, before: str = "") -> Hostile:
    source = f"{before}\ndef eight_bits(weight):\n    return {value}\n"
    return Hostile(source, said, exercise="eight-bits", name="eight_bits")


OBJECTS = {
    "a class that poses as one": Hostile(_POSES, "is a class but not a Function"),
    "a metaclass that agrees to all": Hostile(
        half(_AGREES).replace("Square(Function)", "Square(Function, metaclass=Agrees)"),
        "gradient of `x`",
    ),
    "a metaclass with an apply": Hostile(
        half(
            "class Meta(type(Function)): apply = property(lambda cls: torch.square)"
        ).replace("Square(Function)", "Square(Function, metaclass=Meta)"),
        "gradient of `x`", "Meta.apply",
    ),
    "an object that answers all": Hostile(_CHAMELEON, "ended the process"),
    "an apply of its own": Hostile(
        half("").replace("    @", "    apply = classmethod(lambda c, x: x * x)\n    @", 1),
        "gradient of `x`",
    ),
    "a tensor that lies": Hostile(
        square(f"{_RIGHT}(x * x).as_subclass(Liar)", before=_LIAR), "of type Liar"
    ),
    "the input, changed": Hostile(square(f"{_RIGHT}x.mul_(x)"), "changes `x` in place"),
    "the input's memory": Hostile(square(f"{_RIGHT}x.data.mul_(x)"), "changes `x` in place"),
    "grad_output's memory": Hostile(
        square(backward="(x,) = ctx.saved_tensors\nreturn g.mul_(2 * x)"), "`grad_output` in place"
    ),
    "a pickle": _returns("b'\\x80\\x04.'", "of type bytes"),
    "an object that runs when unpickled": _returns(
        "Bomb()", "of type Bomb", "class Bomb:\n    def __reduce__(self): return exec, ('1/0',)"
    ),
    "a list in itself": _returns("ENDLESS", "of type list", "ENDLESS = []\nENDLESS += [ENDLESS]"),
    "a number that equals all": _returns("Yes(1)", "has shape", _YES),
    "a name that equals all": Hostile(
        _NAME, '"whatever" is not an answer', exercise="name-temperature", name="name"
    ),
    "a type whose name clears the screen": _returns(
        "type('\\x1b[2J\\u202e', (), {})()", r"of type \\x1b\[2J\\u202e;"
    ),
    **{
        f"{what} for an output": Hostile(square(_RIGHT + value), f"of type {named}")
        for what, (value, named) in _UNUSUAL.items()
    },
    **{
        f"{what} for a gradient": Hostile(
            square(
                backward="(x,) = ctx.saved_tensors\nreturn "
                + value.replace("x * x", "2 * x * g")
            ),
            f"backward returns a value of type {named}, which cannot be examined",
        )
        for what, (value, named) in _UNUSUAL.items()
    },
    "a gradient that refuses all": Hostile(
        square(backward="(x,) = ctx.saved_tensors\nreturn (2*x*g).as_subclass(No)", before=_NO),
        "backward returns a value of type No, which cannot be examined",
    ),
    "a tensor without numbers, saved": Hostile(
        square("ctx.save_for_backward(x, x.to('meta'))\nreturn x * x",
               "return 2 * ctx.saved_tensors[0] * g"),
        "forward saves a value of type meta Tensor, which cannot be examined",
    ),
    "200,000 outputs": Hostile(
        square(f"{_RIGHT}(x * x,) * 200_000"), "returns 200,000 values, far more than"
    ),
    "200,000 gradients": Hostile(
        square(backward="return (g,) * 200_000"), "backward returns 200,000 values, far more than"
    ),
    "200,000 saved tensors": Hostile(
        square("ctx.save_for_backward(*[x] * 200_000)\nreturn x * x",
               "return 2 * ctx.saved_tensors[0] * g"),
        "forward saves 200,000 values, far more than",
    ),
    "a sparse tensor in float32 alone": Hostile(
        square(f"{_RIGHT}(x * x).to_sparse() if x.dtype is torch.float32 else x * x"),
        "forward returns a value of type sparse Tensor, which cannot be examined",
    ),
    "a message that cannot be stored": Hostile(
        "raise ValueError('\\x1b[2J\\x07\\u202e\\ud800')",
        r"ValueError: \\x1b\[2J\\x07\\u202e\\ud800",
    ),
    "an error that cannot be told": Hostile(
        "class Mute(Exception):\n    def __str__(self): raise self\nraise Mute",
        "the cell raises Mute: without a message",
    ),
}  # fmt: skip
