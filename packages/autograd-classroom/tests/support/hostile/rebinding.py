"""Submissions that make every comparison succeed. The real comparison is outside."""

from submissions import square

from hostile.making import Hostile, half

_MISMATCH = "gradient of `x`"  # the verdict on the wrong backward
_TRUE = "lambda *a, **k: True"

REBINDING = {
    "torch.autograd.gradcheck": Hostile(
        half(f"torch.autograd.gradcheck = torch.autograd.gradgradcheck = {_TRUE}"),
        _MISMATCH, "replaces torch.autograd.gradcheck",
    ),
    "torch.allclose": Hostile(
        half(f"torch.allclose = torch.isclose = torch.equal = {_TRUE}"),
        _MISMATCH, "replaces torch.allclose",
    ),
    "torch.testing.assert_close": Hostile(
        half(f"torch.testing.assert_close = {_TRUE}"), _MISMATCH, "torch.testing.assert_close"
    ),
    "Tensor.__eq__": Hostile(
        half("for name in ('__eq__', '__le__', '__bool__', 'equal', 'allclose'):\n"
             f"    setattr(torch.Tensor, name, {_TRUE})"),
        _MISMATCH, "replaces torch.Tensor.__eq__",
    ),
    "builtins": Hostile(
        half("import builtins\nbuiltins.all = builtins.any = builtins.isinstance = "
             f"{_TRUE}\nbuiltins.abs = builtins.max = lambda *a, **k: 0"),
        _MISMATCH, "replaces builtins.isinstance",
    ),
    "torch.autograd.grad": Hostile(
        half("torch.autograd.grad = lambda out, x, g=None, **k: (2 * x[0] * g[0],)"),
        _MISMATCH, "replaces torch.autograd.grad",
    ),
    "while forward runs": Hostile(
        half("", f"torch.allclose = torch.equal = {_TRUE}\nctx.save_for_backward(x)\nreturn x * x"),
        _MISMATCH, "replaces torch.allclose while it runs",
    ),
    "the code of a function": Hostile(
        half("import autograd_doctor._numerics.tensors as c\n"
             "c.same_bytes.__code__ = (lambda one, other: True).__code__"),
        _MISMATCH, "the code of same_bytes",
    ),
    "apply of the answer": Hostile(
        square(backward="return g") + "\ndef put(self): self.apply = lambda x: x * x\nput(Square)",
        "gradient", "Square.apply",
    ),
    "Function.apply": Hostile(
        square(before="Function.apply = classmethod(lambda cls, x: x * x)", backward="return g"),
        "gradient", "Function.apply",
    ),
}  # fmt: skip
