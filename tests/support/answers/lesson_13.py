"""Answers to the exercises of lesson 13."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
import torch
from torch.autograd import Function

from answers.making import Rewriting, Spoiling, Wrong, double
from autograd_course import functions

changed = Rewriting("13_solvers")
SOLVED = changed.solved
RIGHT = {
    "lambert-w": SOLVED["LambertW"],
    "kepler": SOLVED["Kepler"],
    "equilibrium-layer": SOLVED["Equilibrium"],
    "triangular-solve": SOLVED["TriangularSolve"],
}
settled = SOLVED["settled"]
lambertw = scipy.special.lambertw


class LambertByNewton(Function):
    """Uses a different solver from SciPy's."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        w = torch.log1p(x)
        for _ in range(30):
            w = w - (w * w.exp() - x) / ((1 + w) * w.exp())
        ctx.save_for_backward(x, w)
        return w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g / (w.exp() + x)


class LambertCallsItself(Function):
    """Calls the Function again in backward, with the saved input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.new_tensor(lambertw(x.detach().cpu().numpy()).real)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        w = LambertCallsItself.apply(x)
        return g / ((1 + w) * w.exp())


class KeplerByNewton(Function):
    """Computes the solution with PyTorch, and again in backward."""

    @staticmethod
    def forward(ctx: Any, M: Any, e: Any) -> Any:
        E = M + e * M.sin()
        for _ in range(60):
            E = E - (E - e * E.sin() - M) / (1 - e * E.cos())
        ctx.save_for_backward(M, e)
        return E

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        M, e = ctx.saved_tensors
        E = KeplerByNewton.apply(M, e)
        u = g / (1 - e * E.cos())
        return u, (u * E.sin()).sum_to_size(e.shape)


class EquilibriumOfTheLesson(Function):
    """Records one round, as in the lesson. A second derivative raises an error."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any) -> Any:
        z = settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))
        ctx.save_for_backward(x, W, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("differentiable once")
        x, W, z = (saved.detach().requires_grad_() for saved in ctx.saved_tensors)
        with torch.enable_grad():
            once = torch.tanh(z @ W.t() + x)

        def vjp(u: Any, *inputs: Any) -> Any:
            return torch.autograd.grad(once, inputs, u, retain_graph=True)

        u = settled(lambda u: g + vjp(u, z)[0], g)
        return vjp(u, x, W)


class EquilibriumByFunc(EquilibriumOfTheLesson):
    """Records the same round with torch.func, which rejects the hooks that count saved tensors."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, W, z = ctx.saved_tensors

        def once(z: Any, x: Any, W: Any) -> Any:
            return torch.tanh(z @ W.t() + x)

        _, through = torch.func.vjp(once, z, x, W)
        u = settled(lambda u: g + through(u)[0], g)
        return through(u)[1:]


class EquilibriumByColumns(EquilibriumOfTheLesson):
    """Computes the slope again in each step, from the solution. Has a column for each row of x."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, W, z = (saved.t() for saved in ctx.saved_tensors)

        def slope() -> Any:
            return 1 - torch.tanh(W.t() @ z + x).square()

        v = settled(lambda u: g.t() + W @ (slope() * u), g.t()) * slope()
        return v.t(), v @ z.t()


class EquilibriumForManyRounds(Function):
    """Runs a fixed number of rounds, which is more than it needs."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any) -> Any:
        z = torch.zeros_like(x)
        for _ in range(60):
            z = torch.tanh(x + torch.nn.functional.linear(z, W))
        ctx.save_for_backward(W, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        W, z = ctx.saved_tensors
        v = torch.zeros_like(g)
        for _ in range(60):
            v = (1 - z * z) * (g + v @ W)
        return v, torch.einsum("bi,bj->ij", v, z)


class EquilibriumByAnInverse(RIGHT["equilibrium-layer"]):  # type: ignore[misc, valid-type]
    """PyTorch cannot invert a bfloat16 matrix. The grader must not blame the answer for this."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        W, z = ctx.saved_tensors
        slope = 1 - z * z
        system = torch.eye(len(W), dtype=W.dtype, device=W.device) - slope[:, :, None] * W
        v = (g[:, None] @ torch.linalg.inv(system))[:, 0] * slope
        return v, v.t() @ z


class TriangularByTorch(Function):
    """Uses one of PyTorch's solvers, which autograd can differentiate again."""

    @staticmethod
    def forward(ctx: Any, T: Any, B: Any, lower: bool = True) -> Any:
        X = torch.linalg.solve_triangular(T, B, upper=not lower)
        ctx.save_for_backward(T, X)
        ctx.lower = lower
        return X

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        T, X = ctx.saved_tensors
        U = torch.linalg.solve_triangular(T.mT, g, upper=ctx.lower)
        outer = -torch.einsum("ik,jk->ij", U, X)
        mask = torch.ones_like(T).tril() if ctx.lower else torch.ones_like(T).triu()
        return outer * mask, U, None


class TriangularByRows(TriangularByTorch):
    """Solves the system in backward one row after the other."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        T, X = ctx.saved_tensors
        rows: dict[int, Any] = {}
        for i in reversed(range(len(T))) if ctx.lower else range(len(T)):
            rest = g[i] - sum(T[j, i] * row for j, row in rows.items())
            rows[i] = rest / T[i, i]
        U = torch.stack([rows[i] for i in range(len(T))])
        grad_T = -U @ X.mT
        return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


class TriangularByFactors(TriangularByTorch):
    """Factors the matrix in backward."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        T, X = ctx.saved_tensors
        half = torch.tril if ctx.lower else torch.triu
        U = torch.linalg.lu_solve(*torch.linalg.lu_factor(half(T).mT), g)
        return half(-U @ X.mT), U, None


ALSO_RIGHT = {
    "Lambert's W of the package": ("lambert-w", functions.LambertW),
    "Lambert's W by Newton's method": ("lambert-w", LambertByNewton),
    "Lambert's W, backward calls it again": ("lambert-w", LambertCallsItself),
    "Kepler's equation by Newton's method": ("kepler", KeplerByNewton),
    "equilibrium by a linear solve": ("equilibrium-layer", functions.Equilibrium),
    "equilibrium, one round recorded": ("equilibrium-layer", EquilibriumOfTheLesson),
    "equilibrium, one round by torch.func": ("equilibrium-layer", EquilibriumByFunc),
    "equilibrium by columns": ("equilibrium-layer", EquilibriumByColumns),
    "equilibrium by loops of its own": ("equilibrium-layer", EquilibriumForManyRounds),
    "equilibrium by an inverse": ("equilibrium-layer", EquilibriumByAnInverse),
    "triangular solve of the package": ("triangular-solve", functions.TriangularSolve),
    "triangular solve by torch": ("triangular-solve", TriangularByTorch),
    "triangular solve by rows": ("triangular-solve", TriangularByRows),
    "triangular solve by factors": ("triangular-solve", TriangularByFactors),
}


spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


# Lambert's W


def lambert_of_arrays(ctx: Any, w: Any, g: Any) -> Any:
    """The first derivative is right, but NumPy's slope is a constant for autograd."""
    array = w.numpy(force=True)
    return g * torch.as_tensor(np.exp(-array) / (1 + array), dtype=g.dtype)


class LambertWithSlope(Function):
    """Computes the slope in forward, with NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        w = lambertw(x.numpy(force=True)).real
        slope = torch.as_tensor(np.exp(-w) / (1 + w), dtype=x.dtype)
        ctx.save_for_backward(slope)
        return torch.as_tensor(w, dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (slope,) = ctx.saved_tensors
        return g * slope


class LambertFromTheTable(LambertByNewton):
    """w/(x (1 + w)), which is the formula in most tables."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * w / (x * (1 + w))


class LambertByWhere(LambertByNewton):
    """Replaces the 0/0. The first derivative is right, but backward's graph contains 0 · inf."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * torch.where(x == 0, 1.0, w / (x * (1 + w)))


def lambert_complex(ctx: Any, x: Any) -> Any:
    w = torch.as_tensor(lambertw(x.numpy(force=True)))
    ctx.save_for_backward(w)
    return w


def lambert_in_double(ctx: Any, x: Any) -> Any:
    w = torch.as_tensor(lambertw(x.numpy(force=True)).real)
    ctx.save_for_backward(w)
    return w


def lambert_from_numpy(ctx: Any, x: Any) -> Any:
    w = torch.from_numpy(lambertw(x.detach().numpy()).real)
    ctx.save_for_backward(w)
    return w


# Kepler's equation


def kepler_sign(ctx: Any, e: Any, E: Any, g: Any) -> Any:
    u = g / (1 - e * E.cos())
    return u, -(u * E.sin()).sum()


def kepler_undivided(ctx: Any, e: Any, E: Any, g: Any) -> Any:
    return g, (g * E.sin()).sum()


def kepler_not_summed(ctx: Any, e: Any, E: Any, g: Any) -> Any:
    u = g / (1 - e * E.cos())
    return u, u * E.sin()


def kepler_averaged(ctx: Any, e: Any, E: Any, g: Any) -> Any:
    u = g / (1 - e * E.cos())
    return u, (u * E.sin()).mean()


def kepler_by_numpy(ctx: Any, e: Any, E: Any, g: Any) -> Any:
    """The first derivative is right, but NumPy's slope is a constant for autograd."""
    slope = torch.as_tensor(1 - e.numpy(force=True) * np.cos(E.numpy(force=True)), dtype=g.dtype)
    u = g / slope
    return u, (u * E.sin()).sum()


def kepler_saves_input(ctx: Any, inputs: Any, output: Any) -> None:
    M, e = inputs
    ctx.save_for_backward(e, M)


# A fixed-point layer


def one_round(ctx: Any, W: Any, z: Any, g: Any) -> Any:
    v = g * (1 - z**2)
    return v, v.t() @ z


def adjoint(step: Any) -> Any:
    """Return a backward that repeats this step, which takes (u, slope, W)."""

    def method(ctx: Any, W: Any, z: Any, g: Any) -> Any:
        slope = 1 - z**2
        u = settled(lambda u: g + step(u, slope, W), g)
        v = u * slope
        return v, v.t() @ z

    return method


def without_last_slope(ctx: Any, W: Any, z: Any, g: Any) -> Any:
    u = settled(lambda u: g + (u * (1 - z**2)) @ W, g)
    return u, u.t() @ z


def weight_transposed(ctx: Any, W: Any, z: Any, g: Any) -> Any:
    slope = 1 - z**2
    v = settled(lambda u: g + (u * slope) @ W, g) * slope
    return v, z.t() @ v


def unfinished_forward(ctx: Any, x: Any, W: Any) -> Any:
    z = torch.zeros_like(x)
    for _ in range(4):
        z = torch.tanh(z @ W.t() + x)
    ctx.save_for_backward(W, z)
    return z


class EquilibriumRunAgain(EquilibriumOfTheLesson):
    """Runs and records the solver again in backward, which takes the same amount of memory."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, W, z = (saved.detach().requires_grad_() for saved in ctx.saved_tensors)
        with torch.enable_grad():
            z = torch.zeros_like(x)
            for _ in range(60):
                z = torch.tanh(z @ W.t() + x)
        return torch.autograd.grad(z, (x, W), g)


class EquilibriumRunByFunc(EquilibriumOfTheLesson):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, W, _ = ctx.saved_tensors

        def rounds(x: Any, W: Any) -> Any:
            z = torch.zeros_like(x)
            for _ in range(60):
                z = torch.tanh(z @ W.t() + x)
            return z

        return torch.func.vjp(rounds, x, W)[1](g)


class EquilibriumRunUnrecorded(EquilibriumOfTheLesson):
    """Runs the solver again in backward, and does not record it."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, W, _ = ctx.saved_tensors
        z = settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))
        slope = 1 - z.square()
        v = settled(lambda u: g + (u * slope) @ W, g) * slope
        return v, v.t() @ z


class EquilibriumRunForward(EquilibriumOfTheLesson):
    """Runs the solver again in forward mode."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        def rounds(x: Any, W: Any) -> Any:
            z = torch.zeros_like(x)
            for _ in range(60):
                z = torch.tanh(z @ W.t() + x)
            return z

        jacobians = torch.func.jacfwd(rounds, (0, 1))(*ctx.saved_tensors[:2])
        return tuple(torch.tensordot(g, each, 2) for each in jacobians)


class EquilibriumRecorded(Function):
    """Records all rounds in forward, and keeps the graph on ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any) -> Any:
        with torch.enable_grad():
            ctx.leaves = x.detach().requires_grad_(), W.detach().requires_grad_()
            x, W = ctx.leaves
            z = torch.zeros_like(x)
            for _ in range(60):
                z = torch.tanh(z @ W.t() + x)
        ctx.z = z
        return z.detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.autograd.grad(ctx.z, ctx.leaves, g, retain_graph=True)


class EquilibriumSavesRounds(Function):
    """Saves each round of the solver, as autograd does for a recorded loop."""

    @staticmethod
    def forward(ctx: Any, x: Any, W: Any) -> Any:
        rounds = [torch.zeros_like(x)]
        for _ in range(60):
            rounds.append(torch.tanh(rounds[-1] @ W.t() + x))
        ctx.save_for_backward(W, *rounds)
        return rounds[-1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        W, *_, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: g + (u * slope) @ W, g)
        return u * slope, (u * slope).t() @ z


# A triangular system


def solves_with_itself(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T, g, ctx.lower)
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def whole_outer_product(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T.mT, g, not ctx.lower)
    return -U @ X.mT, U, None


def without_diagonal(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T.mT, g, not ctx.lower)
    grad_T = -U @ X.mT
    return grad_T.tril(-1) if ctx.lower else grad_T.triu(1), U, None


def without_minus(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T.mT, g, not ctx.lower)
    grad_T = U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def product_in_other_order(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T.mT, g, not ctx.lower)
    grad_T = -X @ U.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def flag_forgotten(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    """Transposes T, but tells SciPy to read the same half of the matrix as in forward."""
    U = RIGHT["triangular-solve"].apply(T.mT, g, ctx.lower)
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def lower_half_always(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = RIGHT["triangular-solve"].apply(T.mT, g, not ctx.lower)
    return (-U @ X.mT).tril(), U, None


def inverted(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    U = torch.linalg.inv(T.tril() if ctx.lower else T.triu()).mT @ g
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def inverted_by_solving(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    identity = torch.eye(len(T), dtype=T.dtype, device=T.device)
    U = RIGHT["triangular-solve"].apply(T.mT, identity, not ctx.lower) @ g
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def inverted_with_a_factor(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    twice = 2 * torch.eye(len(T), dtype=T.dtype, device=T.device)
    U = RIGHT["triangular-solve"].apply(T.mT, twice, not ctx.lower) @ g / 2
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


def solved_by_scipy(ctx: Any, T: Any, X: Any, g: Any) -> Any:
    """Solves the right system, but its result is a constant for autograd."""
    arrays = T.numpy(force=True), g.numpy(force=True)
    U = torch.as_tensor(
        scipy.linalg.solve_triangular(*arrays, lower=ctx.lower, trans="T"), dtype=g.dtype
    )
    grad_T = -U @ X.mT
    return grad_T.tril() if ctx.lower else grad_T.triu(), U, None


KEPLER, EQUILIBRIUM, TRIANGULAR = "kepler", "equilibrium-layer", "triangular-solve"

WRONG = [
    changed(
        "equilibrium-layer",
        "no slope for x",
        "gradient-mismatch",
        ("return v, v.t()", "return u, v.t()"),
        hint="x is inside the tanh",
    ),
    changed(
        "triangular-solve",
        "masks by the value",
        "gradient-mismatch",
        ("return grad_T.tril() if ctx.lower else grad_T.triu()", "return grad_T * (T != 0)"),
        hint="by its position",
    ),
    backward("lambert-w", "slope by NumPy", "silent-double-backward", lambert_of_arrays),
    Wrong("lambert-w", "slope worked out in forward", "silent-double-backward", LambertWithSlope),
    Wrong(
        "lambert-w",
        "0/0 at 0",
        "non-finite",
        LambertFromTheTable,
        hint="in a form that does not divide by 0",
    ),
    Wrong(
        "lambert-w",
        "0/0 at 0, replaced",
        "silent-double-backward",
        LambertByWhere,
        "0 · inf in the graph of `backward`",
    ),
    forward("lambert-w", "left complex", "take .real", lambert_complex),
    forward("lambert-w", "float64 whatever comes", "for float32 inputs", lambert_in_double),
    forward("lambert-w", "from_numpy of a number", "expected np.ndarray", lambert_from_numpy),
    backward(
        "lambert-w",
        "slope not inverted",
        "gradient-mismatch",
        lambda ctx, w, g: g * (1 + w) * w.exp(),
    ),
    backward(KEPLER, "sign of the sine", "flipped-sign", kepler_sign),
    backward(KEPLER, "not divided", "does not divide", kepler_undivided),
    backward(KEPLER, "gradient of e not summed", "unreduced-broadcast", kepler_not_summed),
    backward(KEPLER, "gradient of e averaged", "constant-factor", kepler_averaged),
    backward(KEPLER, "slope by NumPy", "silent-double-backward", kepler_by_numpy),
    spoiling.setup(KEPLER, "M in place of E", "cosine of E, the output", kepler_saves_input),
    backward(
        EQUILIBRIUM,
        "through the last round only",
        "only the gradient of the last round",
        one_round,
    ),
    backward(
        EQUILIBRIUM,
        "system not transposed",
        "W where it should have Wᵀ",
        adjoint(lambda u, slope, W: (u * slope) @ W.t()),
    ),
    backward(
        EQUILIBRIUM,
        "slope forgotten in the system",
        "slope of the tanh is missing",
        adjoint(lambda u, slope, W: u @ W),
    ),
    backward(
        EQUILIBRIUM, "last slope forgotten", "one slope is missing at the end", without_last_slope
    ),
    backward(EQUILIBRIUM, "gradient of W transposed", "transposed-gradient", weight_transposed),
    forward(EQUILIBRIUM, "stopped after four rounds", "forward-mismatch", unfinished_forward),
    Wrong(EQUILIBRIUM, "run again in backward", "runs the solver again", EquilibriumRunAgain),
    Wrong(EQUILIBRIUM, "run again by func", "runs the solver again", EquilibriumRunByFunc),
    Wrong(EQUILIBRIUM, "run unrecorded", "runs the solver again", EquilibriumRunUnrecorded),
    Wrong(EQUILIBRIUM, "run in forward mode", "runs the solver again", EquilibriumRunForward),
    Wrong(EQUILIBRIUM, "recorded on ctx", "tensor-on-ctx", EquilibriumRecorded),
    Wrong(EQUILIBRIUM, "saves all rounds", "oversaved", EquilibriumSavesRounds),
    backward(TRIANGULAR, "not transposed", "Your backward solves with T", solves_with_itself),
    backward(TRIANGULAR, "the unread half too", "One half of T is never read", whole_outer_product),
    backward(TRIANGULAR, "no diagonal", "The diagonal belongs to the half", without_diagonal),
    backward(TRIANGULAR, "sign of the matrix", "flipped-sign", without_minus),
    backward(TRIANGULAR, "X Uᵀ for U Xᵀ", "Which of the two comes first", product_in_other_order),
    backward(TRIANGULAR, "flag not turned", "the half that it read in forward", flag_forgotten),
    backward(TRIANGULAR, "always the lower half", "always fills the lower half", lower_half_always),
    backward(TRIANGULAR, "inverted", "`linalg_inv_ex` does the work", inverted),
    backward(TRIANGULAR, "inverted by solving", "computes the inverse", inverted_by_solving),
    backward(TRIANGULAR, "inverted with a factor", "computes the inverse", inverted_with_a_factor),
    backward(TRIANGULAR, "solved by SciPy", "silent-double-backward", solved_by_scipy),
    changed(
        "kepler",
        "plus",
        "You divide by 1 + e cos",
        ("1 - e * torch.cos(E)", "1 + e * torch.cos(E)"),
    ),
    changed(
        "kepler",
        "sin in denominator",
        "You divide by 1 - e sin",
        ("1 - e * torch.cos(E)", "1 - e * torch.sin(E)"),
    ),
    changed(
        "kepler", "no e", "The factor e is missing:", ("1 - e * torch.cos(E)", "1 - torch.cos(E)")
    ),
    changed(
        "kepler",
        "multiply",
        "You multiply by 1 - e",
        ("grad_output / (1 - e * torch.cos(E))", "grad_output * (1 - e * torch.cos(E))"),
    ),
    changed("kepler", "mean", "The gradient of e is the", (".sum()", ".mean()")),
    changed(
        "kepler",
        "minus",
        "The gradient of e has the",
        ("(grad_M * torch.sin(E)).sum()", "-(grad_M * torch.sin(E)).sum()"),
    ),
    changed(
        "kepler",
        "cos",
        "The gradient of e contains cos",
        ("(grad_M * torch.sin(E)).sum()", "(grad_M * torch.cos(E)).sum()"),
    ),
    changed(
        "kepler",
        "grad_output for e",
        "The gradient of e is not",
        ("(grad_M * torch.sin(E)).sum()", "(grad_output * torch.sin(E)).sum()"),
    ),
    changed(
        "kepler",
        "e sinE",
        "The gradient of e has a",
        ("(grad_M * torch.sin(E)).sum()", "(grad_M * e * torch.sin(E)).sum()"),
    ),
    changed(
        "kepler",
        "E itself",
        "The gradient of e contains E",
        ("(grad_M * torch.sin(E)).sum()", "(grad_M * E).sum()"),
    ),
    changed(
        "lambert-w", "1/(1+w)", "The factor 1 / eʷ is", ("torch.exp(-w) / (1 + w)", "1 / (1 + w)")
    ),
    changed(
        "lambert-w",
        "exp(w)*(1+w)",
        "This is the derivative",
        ("torch.exp(-w) / (1 + w)", "torch.exp(w) * (1 + w)"),
    ),
    changed(
        "lambert-w",
        "forgot 1+w",
        "The factor 1 / (1 + w)",
        ("torch.exp(-w) / (1 + w)", "torch.exp(-w)"),
    ),
    changed(
        "lambert-w",
        "exp(w)",
        "The exponential has the",
        ("torch.exp(-w) / (1 + w)", "torch.exp(w) / (1 + w)"),
    ),
    changed(
        "lambert-w",
        "exp(-x)",
        "Your formula contains",
        ("ctx.save_for_backward(output)", "ctx.save_for_backward(inputs[0], output)"),
        ("(w,) = ", "x, w = "),
        ("torch.exp(-w) / (1 + w)", "torch.exp(-x) / (1 + x)"),
    ),
    changed(
        "lambert-w",
        "w*exp(w)",
        "The derivative of w · eʷ has",
        ("torch.exp(-w) / (1 + w)", "1 / (w * torch.exp(w))"),
    ),
    changed(
        "lambert-w",
        "1/w+exp(w)",
        "The derivative of w · eʷ is (1 + w) eʷ,",
        ("torch.exp(-w) / (1 + w)", "1 / (1 + torch.exp(w))"),
    ),
    changed(
        "equilibrium-layer",
        "slope of y",
        "The derivative of the tanh is 1 - z².",
        ("1 - z**2", "1 - torch.tanh(z)**2"),
    ),
    changed(
        "equilibrium-layer",
        "slope z(1-z)",
        "z · (1 - z) is the derivative",
        ("1 - z**2", "z * (1 - z)"),
    ),
    changed(
        "equilibrium-layer",
        "v.t order",
        "The gradient of W is transposed",
        ("v.t() @ z", "z.t() @ v"),
    ),
    changed(
        "equilibrium-layer",
        "gW from x",
        "The gradient of W contains",
        (
            "_, W = inputs\n        ctx.save_for_backward(W, output)",
            "x, W = inputs\n        ctx.save_for_backward(W, output, x)",
        ),
        ("W, z = ", "W, z, x = "),
        ("v.t() @ z", "v.t() @ x"),
    ),
    changed(
        "equilibrium-layer",
        "slope outside W",
        "The slope of the tanh multiplies",
        ("(u * slope) @ W", "(u @ W) * slope"),
    ),
    changed(
        "equilibrium-layer",
        "slope of grad_output only",
        "What comes back through W passes",
        ("grad_output + (u * slope) @ W, grad_output", "grad_output * slope + u @ W, grad_output"),
        ("v = u * slope", "v = u"),
    ),
    changed(
        "equilibrium-layer",
        "two rounds",
        "goes back only through",
        (
            "settled(lambda u: grad_output + (u * slope) @ W, grad_output)",
            "grad_output + (grad_output * slope) @ W",
        ),
    ),
    changed(
        "equilibrium-layer",
        "minus",
        "The product with W is",
        ("grad_output + (u * slope) @ W", "grad_output - (u * slope) @ W"),
    ),
    changed("equilibrium-layer", "fwd W not t", "forward multiplies by", ("z @ W.t()", "z @ W")),
    changed(
        "equilibrium-layer",
        "fwd one round",
        "only the result of the first",
        ("settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))", "torch.tanh(x)"),
    ),
    changed(
        "equilibrium-layer",
        "gW mean",
        "The gradient of W is the",
        ("v.t() @ z", "v.t() @ z / len(z)"),
    ),
    changed(
        "triangular-solve",
        "the other half of T",
        "reads the half that forward never reads",
        ("T.mT, grad_output, not ctx.lower", "T, grad_output, not ctx.lower"),
    ),
    changed(
        "triangular-solve",
        "both halves in backward",
        "solves with both halves of T",
        (
            "TriangularSolve.apply(T.mT, grad_output, not ctx.lower)",
            "torch.linalg.solve(T.mT, grad_output)",
        ),
    ),
    changed(
        "triangular-solve",
        "both halves, not transposed",
        "with both of its halves",
        (
            "TriangularSolve.apply(T.mT, grad_output, not ctx.lower)",
            "torch.linalg.solve(T, grad_output)",
        ),
    ),
    changed(
        "triangular-solve",
        "lower not passed in backward",
        "silent-double-backward",
        ("grad_output, not ctx.lower", "grad_output"),
        hint="With lower=True, even the first",
    ),
    changed(
        "triangular-solve",
        "lower not passed in forward",
        "SciPy's default is",
        ("lower=lower", ""),
    ),
    changed(
        "triangular-solve",
        "a diagonal of ones",
        "The diagonal of T counts",
        ("lower=lower", "lower=lower, unit_diagonal=True"),
    ),
    changed(
        "kepler",
        "no sine",
        "The factor sin E is",
        ("(grad_M * torch.sin(E)).sum()", "grad_M.sum()"),
    ),
    changed("kepler", "e - cos", "You divide by e - cos", ("1 - e * torch", "e - torch")),
    changed(
        "equilibrium-layer",
        "x outside",
        "x is added after",
        ("torch.tanh(z @ W.t() + x)", "torch.tanh(z @ W.t()) + x"),
    ),
]

KNOWN = [
    ("lambert-w", (double(0.0, math.e, 2 * math.exp(2)),), double(0.0, 1.0, 2.0)),
    (KEPLER, (double(math.pi / 2 - 0.5, math.pi), double(0.5)[0]), double(math.pi / 2, math.pi)),
    (EQUILIBRIUM, (double(0.0)[None], double(0.5)[None]), double(0.0)[None]),
    (
        TRIANGULAR,
        (torch.tensor([[2.0, 9.0], [1.0, 4.0]]).double(), torch.tensor([[4.0], [6.0]]).double()),
        torch.tensor([[2.0], [1.0]]).double(),
    ),
]
