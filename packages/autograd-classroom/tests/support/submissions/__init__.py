"""Submissions as source code, from honest and from malicious people."""

IMPORTS = "import torch\nfrom torch.autograd import Function\n"

FORWARD = "ctx.save_for_backward(x)\nreturn x * x"
BACKWARD = "(x,) = ctx.saved_tensors\nreturn 2 * x * g"
_SHAPE = """
class Square(Function):
    @staticmethod
    def forward(ctx, x):
{forward}

    @staticmethod
    def backward(ctx, g):
{backward}
"""


def square(forward: str = FORWARD, backward: str = BACKWARD, before: str = "") -> str:
    """Return the source of a Square with these lines in its methods, or with lines before it."""
    lines = {"forward": forward, "backward": backward}
    shifted = {
        name: "\n".join(" " * 8 + line for line in text.splitlines())
        for name, text in lines.items()
    }
    return before + "\n" + _SHAPE.format(**shifted)


def _saved(formula: str) -> str:
    return f"(x,) = ctx.saved_tensors\nreturn {formula}"


# The wrong answers to "square" in tests/answers/lesson_01.py, by their mistake.
WRONG_SQUARES = {
    "computes in float32": square("ctx.save_for_backward(x)\nreturn (x.float() ** 2).to(x.dtype)"),
    "keeps x in a global": square("KEPT['x'] = x\nreturn x * x", "return 2 * KEPT['x'] * g", "KEPT = {}"),  # noqa: E501
    "lets autograd differentiate": square(
        backward="(x,) = ctx.saved_tensors\nwith torch.enable_grad():\n"
        "    x = x.detach().requires_grad_()\n    return torch.autograd.grad(x**2, x, g)[0]"
    ),
    "a float32 gradient": square(backward=_saved("(2 * x * g).float()")),
    "forgets grad_output": square(backward=_saved("2 * x")),
    "forgets the 2": square(backward=_saved("x * g")),
    "turns the sign": square(backward=_saved("-2 * x * g")),
    "sums g": square(backward=_saved("2 * x * g.sum()")),
    "clips g": square(backward=_saved("2 * x * g.clamp(-1, 1)")),
    "returns a pair": square(backward=_saved("(2 * x * g, g)")),
    "misspells": square(backward=_saved("2 * x * gard_output")),
    "saves a number": square("ctx.save_for_backward(x, 2)\nreturn x * x"),
    "reads saved_tensors": square(
        "ctx.save_for_backward(x)\n(x,) = ctx.saved_tensors\nreturn x * x"
    ),
    "doubles": square("ctx.save_for_backward(x)\nreturn 2 * x"),
    "returns float64": square("ctx.save_for_backward(x)\nreturn x.double() ** 2"),
    "forgets the 2 in float32": square(
        backward=_saved("(x if x.dtype is torch.float32 else 2 * x) * g")
    ),
    "no staticmethod": square().replace("    @staticmethod\n", "").replace("(ctx", "(self, ctx"),
    "keeps x on ctx": square("ctx.x = x\nreturn x * x", "return 2 * ctx.x * g"),
}  # fmt: skip
