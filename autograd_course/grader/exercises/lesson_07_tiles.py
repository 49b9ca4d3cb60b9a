"""The last three tiers of lesson 07: by tiles, twice, and with shared keys."""

from collections.abc import Mapping

from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_07_backward import (
    GROUPED_GRADIENTS,
    LSE_GRADIENTS,
    TILED_GRADIENTS,
)
from autograd_course.grader.exercises.lesson_07_bounds import (
    CONDUCT,
    few_tiles_at_once,
    fine_tiles_only,
    grouped_rows,
    keeps_little,
    tiles_only,
)
from autograd_course.grader.exercises.lesson_07_references import grouped, tiled, with_lse
from autograd_course.grader.exercises.lesson_07_suspects import (
    GROUPED_SUSPECTS,
    TILED_SUSPECTS,
)
from autograd_course.grader.exercises.lesson_07_whole import LESSON, drawn
from autograd_course.grader.sampling import normal

SEED = 5  # takes some weights of each row, leaves some, and not those of seed 0 (3 does)

TILED: Mapping[str, Sampler] = {
    "4 queries, 4 keys, tiles of 2×2": lambda rng: (*drawn(rng), False, 0.0, 0, 2),
    "causal, two heads, tiles that do not divide": lambda rng: (
        *drawn(rng, 1, 2, n=3, m=3),
        True,
        0.0,
        0,
        2,
    ),
    "dropout": lambda rng: (*drawn(rng, n=2, m=3), False, 0.4, SEED, 2),
}

PAIRS: Mapping[str, Sampler] = {
    "3 queries, 3 keys": lambda rng: drawn(rng, n=3, m=3),
    "3 queries, 2 keys, two heads": lambda rng: drawn(rng, 1, 2, n=3, m=2),
}

GROUPED: Mapping[str, Sampler] = {
    "4 heads of queries, 2 of keys": lambda rng: (
        normal(rng, 4, 3, 3),
        normal(rng, 2, 3, 3),
        normal(rng, 2, 3, 2),
    ),
    "3 heads of queries share one of keys, a batch axis": lambda rng: (
        normal(rng, 2, 3, 2, 3),
        normal(rng, 2, 1, 3, 3),
        normal(rng, 2, 1, 3, 2),
    ),
    "as many heads of keys as of queries": lambda rng: drawn(rng, 2, n=2, m=3),
}

TILES: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="attention-tiled",
        lesson=LESSON,
        title="Tier 4: tiles",
        points=5,
        reference=tiled,
        samplers=TILED,
        suspects=TILED_SUSPECTS,
        gradient_suspects=TILED_GRADIENTS,
        seconds=20.0,  # each pass is a loop of small operations, and the doctor makes hundreds
        checks=(*CONDUCT, tiles_only, few_tiles_at_once, fine_tiles_only),
        bounds="no tensor is larger than the inputs or a few tiles, and few tiles are there at "
        "once, forward and backward",
        double_backward=False,
        hints=(
            "Forward first, without causality and dropout: for each block of queries go through "
            "the blocks of keys, with three running things: the maximum, the sum, the output. What "
            "must happen to the last two when the maximum rises?",
            "They are multiplied by exp(old maximum - new maximum). Backward needs no running "
            "things, since L is known: each tile rebuilds its own P = exp(S - L) and adds its "
            "share to dQ of its queries and to dK and dV of its keys. Causality and dropout depend "
            "on the numbers in the whole sequence, i + row and j + column.",
            "With F the dropout factor of a tile: total counts the weights before dropout, the "
            "output adds (F ∘ W) V. In backward dV += (F ∘ P)ᵀ dO, dP = F ∘ (dO Vᵀ), dS = P ∘ (dP "
            "- D) with D = rowsum(dO ∘ O) as ever, dQ += dS K / √E, dK += dSᵀ Q / √E.",
        ),
        read='lesson 07, "A softmax in pieces"',
    ),
    FunctionExercise(
        id="attention-twice",
        lesson=LESSON,
        title="Tier 5: differentiable twice",
        points=3,
        reference=with_lse,
        samplers=PAIRS,
        double_backward=True,
        gradient_suspects=LSE_GRADIENTS,
        checks=(*CONDUCT, keeps_little),
        bounds="within the budget of tier 3",
        hints=(
            "Lesson 05: what carries a graph into backward? Go through the five tensors that tier "
            "3 saves. One of them is neither an input nor an output.",
            "L must be an output, and then a gradient arrives for it. L is the log-sum-exp of a "
            "row of S, so ∂L/∂S is that row of the softmax.",
            "forward returns (out, lse) and saves these very tensors. backward(ctx, grad_out, "
            "grad_lse) is tier 3 with dS = P ∘ (dP - D + grad_lse[..., None]), and no in-place "
            "arithmetic.",
        ),
        read='lesson 07, "Differentiable twice"',
    ),
    FunctionExercise(
        id="attention-grouped",
        lesson=LESSON,
        title="Tier 6: grouped queries",
        points=2,
        reference=grouped,
        samplers=GROUPED,
        suspects=GROUPED_SUSPECTS,
        gradient_suspects=GROUPED_GRADIENTS,
        checks=(*CONDUCT, grouped_rows),
        bounds="k and v are kept as they were given, not repeated",
        double_backward=False,
        hints=(
            "A head of keys is read by several heads of queries. What does a tensor's gradient do "
            "when the tensor is used in several places?",
            "It adds up: the gradients of k and v are sums over the heads of their group. Repeat k "
            "and v for the products if you like, in forward and again in backward, but save them "
            "unrepeated. Head h reads key head h // group: repeat_interleave, not repeat.",
            "dk = (dSᵀ Q / √E) has one matrix for each head of queries; "
            "dk.unflatten(-3, (k.shape[-3], group)).sum(-3) has k's shape. The same for dv.",
        ),
        read='lesson 07, "Heads that share keys"',
    ),
)
