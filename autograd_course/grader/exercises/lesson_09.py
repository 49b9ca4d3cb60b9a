"""The exercises of lesson 09: what the rest of PyTorch asks of a Function."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from autograd_course.grader.checks import (
    compiles_whole,
    jvp_takes_a_batch,
    no_gradient_through,
    no_tensor_on_ctx,
    one_call_for_the_batch,
    same_under_autocast,
)
from autograd_course.grader.exercise import Exercise, FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_09_operator import OPERATOR
from autograd_course.grader.exercises.lesson_09_samples import PER_SAMPLE
from autograd_course.grader.sampling import around, normal

LESSON = "09_beyond_eager"
TITLE = "Beyond eager"
SECONDS = 120.0  # the first torch.compile of a session imports for half a minute on a busy machine


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return ``x`` over its root mean square, times ``weight``; and the factor, as a constant."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd.detach()


def differentiable_rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the same, with a gradient through the factor."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a⁻¹ b`` for a vector ``b``, or for a batch of both."""
    y: Tensor = torch.linalg.solve(a, b[..., None])[..., 0]
    return y


def smooth_maximum(x: Tensor, temperature: Tensor) -> Tensor:
    """Return ``t log Σ exp(x/t)`` over the last axis."""
    return temperature * torch.logsumexp(x / temperature, -1)


def huber(x: Tensor, delta: float) -> Tensor:
    """Return ``x²/2`` where ``|x| ≤ delta``, and the tangent line beyond."""
    return huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)


def contrast(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    """Return the cross entropy of each query against all keys; its own key is the target."""
    scores = q @ k.t() / temperature
    return torch.logsumexp(scores, 1) - scores.diagonal()


def normed(rng: torch.Generator, *shape: int, eps: float = 1e-5) -> tuple[Tensor, Tensor, float]:
    """Return rows, a weight for each column, and ``eps``."""
    return normal(rng, *shape), 1 + 0.3 * normal(rng, shape[-1]), eps


def system(rng: torch.Generator, n: int, *batch: int) -> tuple[Tensor, Tensor]:
    """Return well-conditioned systems and a right-hand side for each."""
    return normal(rng, *batch, n, n) + 3 * n * torch.eye(n), normal(rng, *batch, n)


def heated(rng: torch.Generator, temperature: float, *shape: int) -> tuple[Tensor, Tensor]:
    """Return rows and a temperature."""
    return normal(rng, *shape), torch.tensor(temperature, dtype=torch.float64)


def pairs(rng: torch.Generator, n: int, d: int, temperature: float) -> tuple[Tensor, Tensor, float]:
    """Return queries, keys that resemble them, and a temperature."""
    q = normal(rng, n, d)
    return q, q + 0.5 * normal(rng, n, d), temperature


def sharp(n: int = 12, d: int = 8) -> tuple[Tensor, Tensor, float]:
    """Return queries and keys of length 1 and a low temperature, in float32."""
    rng, normalize = torch.Generator().manual_seed(0), torch.nn.functional.normalize
    q = normalize(normal(rng, n, d))
    return q.float(), normalize(q + normal(rng, n, d)).float(), 0.02


def errors(rng: torch.Generator, delta: float, *shape: int) -> tuple[Tensor, float]:
    """Return numbers on each side of both kinks, and the kinks' place."""
    return around(rng, (-delta, delta), *shape), delta


NORMS: Mapping[str, Sampler] = {
    "a batch of 3 rows": lambda rng: normed(rng, 3, 5),
    "three axes, one of length 1": lambda rng: normed(rng, 2, 1, 4),
    "a single row": lambda rng: normed(rng, 4),
    "a large eps": lambda rng: normed(rng, 2, 3, eps=0.5),
}

SYSTEMS: Mapping[str, Sampler] = {
    "one system of 3": lambda rng: system(rng, 3),
    "one system of 1": lambda rng: system(rng, 1),
    "a batch of 2 systems": lambda rng: system(rng, 3, 2),
}

HEATED: Mapping[str, Sampler] = {
    "a 3×5 matrix": lambda rng: heated(rng, 0.7, 3, 5),
    "a vector": lambda rng: heated(rng, 2.0, 4),
    "three axes, one of length 1": lambda rng: heated(rng, 0.3, 2, 1, 3),
}

ERRORS: Mapping[str, Sampler] = {
    "a 3×5 matrix": lambda rng: errors(rng, 1.0, 3, 5),
    "a vector, a small delta": lambda rng: errors(rng, 0.25, 6),
    "three axes, one of length 1": lambda rng: errors(rng, 2.0, 2, 1, 3),
}

PAIRS: Mapping[str, Sampler] = {
    "5 pairs of 3 numbers": lambda rng: pairs(rng, 5, 3, 0.5),
    "a single pair": lambda rng: pairs(rng, 1, 4, 1.0),
    "3 pairs, a low temperature": lambda rng: pairs(rng, 3, 4, 0.2),
}

FIRST: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="split-rms-norm",
        lesson=LESSON,
        title="Split an old Function",
        points=2,
        reference=rms_norm,
        samplers=NORMS,
        methods=("setup_context", "vmap"),
        gradient_suspects={
            "A share of this gradient comes through rstd, and none is meant to: say in "
            "setup_context that rstd is not differentiable, and leave its gradient unused.": (
                differentiable_rms_norm
            ),
        },
        checks=(no_gradient_through(1, "rstd"),),
        bounds="torch.func takes it",
        double_backward=False,
        hints=(
            "Sort the lines of the old forward by the question whether they use ctx. What of it "
            "does setup_context see, and what does it not see?",
            "rstd is neither input nor output, so it becomes a second output, marked as not "
            "differentiable. Then backward gets a second argument too, which it does not use. And "
            "the class says in one line that vmap may derive its own rule.",
            "forward(x, weight, eps) returns (x * rstd * weight, rstd). setup_context takes "
            "x, weight, eps = inputs and _, rstd = output; it calls mark_non_differentiable(rstd) "
            "and saves x, weight and rstd. backward(ctx, grad_output, _) has the old formulas.",
        ),
        read='lesson 09, "Two forms of one Function"',
    ),
)

SECOND: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="vmap-solve",
        lesson=LESSON,
        title="A vmap rule for NumPy",
        points=3,
        reference=solve,
        samplers=SYSTEMS,
        methods=("setup_context", "vmap"),
        checks=(one_call_for_the_batch,),
        bounds="one call of the kernel solves the whole batch",
        hints=(
            "The rule gets the whole tensors, and in_dims says for each where its batch lies. "
            "Where does the kernel expect it? What if there is none?",
            "Bring the batch of each argument to the front: movedim(dim, 0) where it has one. "
            "Where in_dims is None all samples share the argument: expand it to info.batch_size. "
            "Then call Solve.apply on the result; the batch of what it returns is in front.",
            "a = a.expand(info.batch_size, *a.shape) if in_dims[0] is None else "
            "a.movedim(in_dims[0], 0), likewise b; return Solve.apply(a, b), 0.",
        ),
        read='lesson 09, "vmap, by hand"',
    ),
    FunctionExercise(
        id="jvp-smooth-maximum",
        lesson=LESSON,
        title="Forward mode for a smooth maximum",
        points=3,
        reference=smooth_maximum,
        samplers=HEATED,
        double_backward=True,
        methods=("setup_context", "jvp"),
        checks=(no_tensor_on_ctx, jvp_takes_a_batch),
        bounds="its Hessian is right, forward over reverse",
        hints=(
            "Let both inputs change by a little, x by its tangent and t by its own. By how much "
            "does y change? What has backward to do with a sum over a row, and what jvp?",
            "jvp is the same matrix from the other side. Where backward spreads one number g over "
            "a row, p * g[..., None], jvp collects a row of tangents into one number. The two "
            "inputs' contributions are added up. And what jvp reads must be kept for it: the same "
            "tensors as for backward, in the same order.",
            "setup_context: the same three tensors go to ctx.save_for_backward and to "
            "ctx.save_for_forward. jvp: (p * x_tangent).sum(-1) plus "
            "t_tangent * (y - (p * x).sum(-1)) / t.",
        ),
        read='lesson 09, "Forward mode"',
    ),
    FunctionExercise(
        id="repair-graph-breaks",
        lesson=LESSON,
        title="Repair: graph breaks",
        points=2,
        reference=huber,
        samplers=ERRORS,
        seconds=SECONDS,
        methods=("setup_context",),
        checks=(compiles_whole,),
        bounds="torch.compile makes one graph of it",
        hints=(
            "Go through both methods line by line and ask: does this need a value, or does it do "
            "something besides computing?",
            "The branch becomes torch.where, which computes both sides and chooses element by "
            "element. The counter goes. And backward, which lets autograd work out a derivative, "
            "gets the formula: what is the slope on each of the three pieces?",
            "forward: torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2)). "
            "backward: x.clamp(-delta, delta) * grad_output, and None for delta.",
        ),
        read='lesson 09, "Graph breaks"',
    ),
)

LAST: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="repair-autocast",
        lesson=LESSON,
        title="Repair: a loss under autocast",
        points=2,
        reference=contrast,
        samplers=PAIRS,
        checks=(same_under_autocast(*sharp()),),
        bounds="autocast costs it no digits",
        accepted=("gradient-dtype", "precision"),  # float32 for bfloat16 is what it asks for
        hints=(
            "Which operation of forward computes in bfloat16 under autocast, although its inputs "
            "are float32? How large are the scores, and how far apart are neighboring numbers of "
            "that size in bfloat16?",
            "Both methods are to compute in float32, with autocast off. torch.amp has a decorator "
            "for each; one of them takes the dtype in which forward wants its inputs.",
            '@custom_fwd(device_type="cpu", cast_inputs=torch.float32) on forward and '
            '@custom_bwd(device_type="cpu") on backward, each below @staticmethod.',
        ),
        read='lesson 09, "Autocast"',
    ),
)

EXERCISES: tuple[Exercise, ...] = (*FIRST, *PER_SAMPLE, *SECOND, *OPERATOR, *LAST)
