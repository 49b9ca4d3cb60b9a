"""Production operations.

A rule must name each mutant and must not report the original operation.
"""

from production import OPERATIONS
from production.fixed_point import FixedPoint
from production.operation import normal
from production.softmax import Softmax

from cases.making import Case, X, draw, saving

WITNESSES = [
    Case(
        mutant.rule,
        f"{operation.name}: {mutant.what}",
        mutant.of(operation.fn),
        operation.inputs,
        {**operation.options, **mutant.options},
    )
    for operation in OPERATIONS
    for mutant in operation.mutants
]

LOOKALIKES = [
    Case(
        rule,
        f"{operation.name}, as it should be",
        operation.fn,
        operation.inputs,
        operation.options,
    )
    for operation in OPERATIONS
    for rule in dict.fromkeys(mutant.rule for mutant in operation.mutants)
]

# Cases that these operations suggested

WITNESSES += [
    Case(
        "gradient-mismatch",
        "of one number, which is a multiple of any other",
        saving(lambda x, s: x * s.sin(), lambda x, s, g: (g * s.sin(), (g * x).sum() * s)),
        (X, draw()),
    ),
]

LOOKALIKES += [
    Case(
        "nonlinear-in-grad-output",
        "a softmax's sum: its gradient is zero but for rounding",
        lambda x: Softmax.apply(x).sum(-1),
        (normal(3, 4),),
    ),
    Case(
        "gradient-dtype",
        "a solve, for which PyTorch has no bfloat16",
        FixedPoint,
        (0.1 * normal(3, 3), normal(3, seed=1)),
    ),
]
