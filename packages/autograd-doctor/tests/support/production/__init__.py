"""Functions as a good engineer would write them, and realistic bugs in each of them.

The package has one module for each subject. Every module has a table ``OPERATIONS``.
"""

from production import (
    attention,
    batch_norm,
    complex_valued,
    convolution,
    cumulative,
    edited_gradients,
    fixed_point,
    indexing,
    layers,
    linear_algebra,
    losses,
    normalization,
    outputs,
    pooling,
    quantization,
    recomputation,
    softmax,
    sorting,
    weight_norm,
)
from production.operation import Mutant, Operation

_AREAS = (
    normalization,
    batch_norm,
    weight_norm,
    softmax,
    losses,
    attention,
    indexing,
    sorting,
    cumulative,
    convolution,
    pooling,
    complex_valued,
    linear_algebra,
    fixed_point,
    layers,
    outputs,
    quantization,
    edited_gradients,
    recomputation,
)

OPERATIONS: tuple[Operation, ...] = tuple(op for area in _AREAS for op in area.OPERATIONS)

__all__ = ["OPERATIONS", "Mutant", "Operation"]
