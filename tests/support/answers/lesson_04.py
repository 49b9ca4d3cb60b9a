"""Answers to the exercises of lesson 04."""

from __future__ import annotations

import cmath
import math
from typing import Any

import torch
from torch.autograd import Function

from answers import lesson_04_half
from answers.making import Rewriting, Wrong, double, rewritten, solved

SOLVED = solved("04_debugging_clinic")
RIGHT = {
    "name-temperature": "3b",
    "repair-temperature": SOLVED["Tempered"],
    "repair-film": SOLVED["FiLM"],
    "name-floor-log": "1d",
    "repair-floor-log": SOLVED["FloorLog"],
    "name-distance": "4a",
    "repair-distance": SOLVED["Distance"],
    "name-rotation": "3c",
    "repair-rotation": SOLVED["Rotate"],
    "repair-share": SOLVED["Share"],
    "repair-color-table": SOLVED["LookUp"],
    "repair-log-cosh": SOLVED["LogCosh"],
    "repair-softsign": SOLVED["Softsign"],
    "name-solver": "6d",
    "repair-solver": SOLVED["Solve"],
    "repair-rms-norm": SOLVED["RMSNorm"],
    "name-dropout": "3b",
    "repair-dropout": SOLVED["Dropout"],
    "predict-ratios": [8, -1, 0.2],
}


class TemperedByOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, temperature: Any) -> Any:
        y = torch.tanh(x / temperature)
        ctx.save_for_backward(y, x, temperature)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        y, x, temperature = ctx.saved_tensors
        grad_x = g * (1 - y * y) / temperature
        grad_t = -(grad_x * x / temperature).sum() if ctx.needs_input_grad[1] else None
        return grad_x, grad_t


class FiLMOfEverything(SOLVED["BrokenFiLM"]):  # type: ignore[misc]
    """Computes all gradients, even those that are not needed. This is wasteful but right."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, gamma = ctx.saved_tensors
        return g * gamma, (g * x).sum(0), g.sum(0)


class FloorLogByMask(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, floor: float) -> Any:
        high = x.clamp(min=floor)
        ctx.save_for_backward(high, x > floor)
        return high.log()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        high, above = ctx.saved_tensors
        return g * above / high, None


class RotateByComplex(SOLVED["BrokenRotate"]):  # type: ignore[misc]
    """Rotates as rotary embeddings usually do. PyTorch has no bfloat16 complex numbers."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        turned = torch.view_as_complex(g.contiguous()) * cmath.exp(-1j * ctx.angle)
        return torch.view_as_real(turned), None


class RotateContiguous(SOLVED["BrokenRotate"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return SOLVED["BrokenRotate"].backward(ctx, g.contiguous())


class LookUpByIndexAdd(SOLVED["BrokenLookUp"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        table, index, fraction = ctx.saved_tensors
        grad_table, places = table.new_zeros(len(table)), index.reshape(-1)
        grad_table.index_add_(0, places, ((1 - fraction) * g).reshape(-1))
        grad_table.index_add_(0, places + 1, (fraction * g).reshape(-1))
        return grad_table, None, (table[index + 1] - table[index]) * g


class LogCoshBounded(SOLVED["BrokenLogCosh"]):  # type: ignore[misc]
    """The clamp is harmless here, because tanh is 1 to the last digit beyond 20."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        up, down = x.clamp(-20, 20).exp(), (-x).clamp(-20, 20).exp()
        return g * (up - down) / (up + down)


class SoftsignByInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x / (1 + x.abs())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g / (1 + x.abs()).square()


class SolveWithACopiedTape(SOLVED["BrokenSolve"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        states, tape = ctx.saved_tensors, list(ctx.tape)
        while tape:
            i, h = tape.pop()
            g = g * (1 - h * states[i].cos())
        return g, None


class RMSNormByOutput(Function):
    """The saved output is also a tensor with a graph."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = SOLVED["rms_norm"](x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return r * (g - y * (g * y).mean(-1, keepdim=True))


class DropoutKeepingTheMask(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, p: float, seed: int) -> Any:
        kept = SOLVED["draw"](x, p, torch.Generator(x.device).manual_seed(seed))
        ctx.save_for_backward(kept)
        ctx.p = p
        return torch.where(kept, x / (1 - p), 0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (kept,) = ctx.saved_tensors
        return torch.where(kept, g / (1 - ctx.p), 0), None, None


ALSO_RIGHT = {
    "ratios as tensors": ("predict-ratios", (torch.tensor(8.0), -1, 1 / 5)),
    "temperature by the output": ("repair-temperature", TemperedByOutput),
    "all three gradients always": ("repair-film", FiLMOfEverything),
    "the floor as a mask": ("repair-floor-log", FloorLogByMask),
    "rotation made contiguous": ("repair-rotation", RotateContiguous),
    "rotation by a complex product": ("repair-rotation", RotateByComplex),
    "table by index_add": ("repair-color-table", LookUpByIndexAdd),
    "log cosh with bounded exponentials": ("repair-log-cosh", LogCoshBounded),
    "softsign by the input": ("repair-softsign", SoftsignByInput),
    "a tape that is copied": ("repair-solver", SolveWithACopiedTape),
    "rms norm by input and output": ("repair-rms-norm", RMSNormByOutput),
    "dropout that keeps its mask": ("repair-dropout", DropoutKeepingTheMask),
}


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("04_debugging_clinic", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "repair-dropout",
        "forgets the seed in backward",
        "gradient-mismatch",
        changed(
            "Dropout",
            (
                "torch.Generator(grad_output.device).manual_seed(ctx.seed)",
                "torch.Generator(grad_output.device)",
            ),
        ),
        "never gets the seed",
    ),
    Wrong(
        "repair-dropout",
        "another mask, and not scaled",
        "gradient-mismatch",
        changed(
            "Dropout",
            (
                "kept = draw(grad_output, ctx.p, generator)",
                "draw(grad_output, ctx.p, generator)\nkept = draw(grad_output, ctx.p, generator)",
            ),
            ("grad_output * kept / (1 - ctx.p)", "grad_output * kept"),
        ),
        "is missing, too",
    ),
    Wrong(
        "repair-dropout",
        "not scaled",
        "constant-factor",
        changed("Dropout", ("grad_output * kept / (1 - ctx.p)", "grad_output * kept")),
        "The mask is right",
    ),
    Wrong(
        "repair-color-table",
        "exchanges the weights",
        "permuted-gradient",
        changed(
            "LookUp",
            ("(index,), (1 - fraction)", "(index,), fraction"),
            ("(index + 1,), fraction", "(index + 1,), (1 - fraction)"),
        ),
        "weights are exchanged",
    ),
    Wrong(
        "repair-color-table",
        "adds both weights to one entry",
        "gradient-mismatch",
        changed("LookUp", ("(index + 1,)", "(index,)")),
        "belongs to entry i + 1",
    ),
    Wrong(
        "repair-film",
        "puts the Nones in front",
        "frozen-input",
        changed(
            "FiLM",
            (
                "return (grad_x, grad_gamma, grad_beta)",
                "wanted = [g for g in (grad_x, grad_gamma, grad_beta) if g is not None]\n"
                "return (*[None] * (3 - len(wanted)), *wanted)",
            ),
        ),
        "stays at the position",
    ),
    Wrong(
        "repair-film",
        "sums before it multiplies",
        "unreduced-broadcast",
        changed("FiLM", ("(grad_output * x).sum(0)", "grad_output * x.sum(0)")),
        "Multiply them row by row",
    ),
    Wrong(
        "repair-log-cosh",
        "replaces nan by 1",
        "wrong-region",
        changed(
            "LogCosh",
            ("torch.tanh(x)", "((x.exp() - (-x).exp()) / (x.exp() + (-x).exp())).nan_to_num(1.0)"),
        ),
        "is always 1 here",
    ),
    Wrong(
        "repair-log-cosh",
        "replaces nan by 0",
        "wrong-region",
        changed(
            "LogCosh",
            ("torch.tanh(x)", "((x.exp() - (-x).exp()) / (x.exp() + (-x).exp())).nan_to_num()"),
        ),
        "is 0 here",
    ),
    Wrong(
        "repair-softsign",
        "takes the derivative of tanh",
        "gradient-mismatch",
        changed("Softsign", ("(1 - y.abs()) ** 2", "(1 - y ** 2)")),
        "This is 1 - y²",
    ),
    Wrong(
        "repair-solver",
        "takes the states after the steps",
        "gradient-mismatch",
        changed(
            "Solve",
            (
                "states.append(x)\n            x = x - h * x.sin()",
                "x = x - h * x.sin()\nstates.append(x)",
            ),
        ),
        "the state before the step",
    ),
    Wrong(
        "repair-solver",
        "turns only the steps around",
        "gradient-mismatch",
        changed("Solve", ("zip(ctx.steps,", "zip(ctx.steps[::-1],")),
        "opposite orders",
    ),
    Wrong(
        "repair-solver",
        "takes the steps off a list",
        "not-reentrant",
        changed(
            "Solve",
            ("ctx.steps = steps", "ctx.steps = list(steps)"),
            (
                "steps = zip(ctx.steps, ctx.saved_tensors, strict=True)",
                "steps = [(ctx.steps.pop(), state) for state in reversed(ctx.saved_tensors)]",
            ),
            ("reversed(list(steps))", "steps"),
        ),
        "",
    ),
    Wrong(
        "repair-rms-norm",
        "forgets the tiny number",
        "gradient-mismatch",
        changed("RMSNorm", (" + 1e-06", "")),
        "does not add 1e-6",
    ),
    Wrong(
        "repair-rms-norm",
        "adds the tiny number outside the root",
        "gradient-mismatch",
        changed(
            "RMSNorm",
            (
                "(x.square().mean(-1, keepdim=True) + 1e-06).rsqrt()",
                "x.square().mean(-1, keepdim=True).rsqrt() + 1e-6",
            ),
        ),
        "adds 1e-6 to 1/√mean",
    ),
]

edited = Rewriting("04_debugging_clinic")
EDITED = [
    edited(
        "repair-distance",
        "takes all leading dims for one",
        "backward-raises",
        ("grad_output.unsqueeze(-1)", "grad_output.reshape(-1, 1)"),
        hint="works for a matrix",
    ),
    edited(
        "repair-temperature",
        "multiplies two sums",
        "gradient-mismatch",
        ("-(slope * x).sum() / temperature**2", "-slope.sum() * x.sum() / temperature**2"),
        hint="two sums are multiplied",
    ),
    edited(
        "repair-film",
        "returns early",
        "frozen-input",
        (
            "grad_x = grad_output",
            "if not needs_x:\n            return None, None, None\n        grad_x = grad_output",
        ),
        hint="no gradient at all",
    ),
    edited(
        "repair-floor-log",
        "adds the floor",
        "forward-mismatch",
        ("x.clamp(min=floor).log()", "(x + floor).log()"),
        hint="added to x",
    ),
    edited(
        "repair-floor-log",
        "takes the floor for a ceiling",
        "forward-mismatch",
        ("x.clamp(min=floor).log()", "x.clamp(max=floor).log()"),
        hint="as a ceiling",
    ),
    edited(
        "repair-floor-log",
        "clamps the logarithm",
        "forward-mismatch",
        ("x.clamp(min=floor).log()", "x.log().clamp(min=floor)"),
        hint="before the logarithm",
    ),
    edited(
        "repair-log-cosh",
        "takes the sigmoid",
        "gradient-mismatch",
        ("torch.tanh(x)", "torch.sigmoid(2 * x)"),
        hint="between 0 and 1",
    ),
    edited(
        "repair-log-cosh",
        "forgets a 2",
        "gradient-mismatch",
        ("torch.tanh(x)", "(2 * torch.sigmoid(x) - 1)"),
        hint="tanh(x / 2)",
    ),
    edited(
        "repair-softsign",
        "forgets to express x",
        "gradient-mismatch",
        ("(1 - y.abs()) ** 2", "1 / (1 + y.abs())"),
        hint="Express 1 + |x|",
    ),
    edited(
        "repair-softsign",
        "takes y for x",
        "gradient-mismatch",
        ("(1 - y.abs()) ** 2", "1 / (1 + y.abs()) ** 2"),
        hint="the saved tensor is y",
    ),
    edited(
        "repair-softsign",
        "takes the derivative of a sigmoid",
        "gradient-mismatch",
        ("(1 - y.abs()) ** 2", "y * (1 - y)"),
        hint="of a sigmoid",
    ),
    edited(
        "repair-solver",
        "takes the first state",
        "gradient-mismatch",
        ("state.cos()", "ctx.saved_tensors[0].cos()"),
        hint="at the first state",
    ),
    edited(
        "repair-solver",
        "takes the last state",
        "gradient-mismatch",
        ("state.cos()", "ctx.saved_tensors[-1].cos()"),
        hint="before the last step",
    ),
]

WRONG = [*lesson_04_half.wrong(SOLVED, RIGHT), *CAUSES, *EDITED]

KNOWN = [
    ("repair-temperature", (double(0.0, 2.0), double(2.0)[0]), double(0.0, math.tanh(1.0))),
    (
        "repair-film",
        (double(2.0, 3.0)[None], double(1.0, 2.0), double(5.0, 7.0)),
        double(7.0, 13.0)[None],
    ),
    ("repair-floor-log", (double(1.0, 0.001), 0.1), double(0.0, math.log(0.1))),
    ("repair-distance", (double(3.0, 4.0), double(0.0, 0.0)), double(12.5)[0]),
    ("repair-rotation", (double(1.0, 0.0), math.pi / 2), double(0.0, 1.0)),
    ("repair-share", (double(1.0, 3.0), 0), double(0.25, 0.75)),
    (
        "repair-color-table",
        (double(0.0, 1.0, 3.0), torch.tensor([1, 0]), double(0.5, 0.25)),
        double(2.0, 0.25),
    ),
    ("repair-log-cosh", (double(0.0, 1000.0),), double(0.0, 1000 - math.log(2))),
    ("repair-softsign", (double(1.0, -3.0),), double(0.5, -0.75)),
    (
        "repair-solver",
        (double(math.pi / 2), (0.5, 0.5)),
        double(math.pi / 2 - 0.5 - 0.5 * math.cos(0.5)),
    ),
    ("repair-rms-norm", (double(3.0, -3.0),), double(1.0, -1.0) * 3 / math.sqrt(9 + 1e-6)),
    ("repair-dropout", (double(5.0), 0.0, 1), double(5.0)),
]
