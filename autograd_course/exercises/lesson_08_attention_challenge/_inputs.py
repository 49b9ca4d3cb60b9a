"""Random queries, keys and values for attention, and masks."""

from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.exercise import Sampler
from autograd_course.grader.sampling import normal


def drawn(rng: torch.Generator, *lead: int, n: int = 4, m: int = 4) -> tuple[Tensor, ...]:
    """Return ``n`` queries and ``m`` keys with 3 features, and ``m`` values with 2 features."""
    return normal(rng, *lead, n, 3), normal(rng, *lead, m, 3), normal(rng, *lead, m, 2)


def holes(n: int, m: int, *, empty: int | None = None) -> Tensor:
    """Return a boolean mask that hides some keys from each query. Query ``empty`` sees no key."""
    seen = (torch.arange(n)[:, None] + torch.arange(m)) % 3 > 0
    if empty is not None:
        seen[empty] = False
    return seen


def far_away(rng: torch.Generator) -> tuple[Tensor, ...]:
    """Return inputs whose scores are about 1000 or -1000. Scores in a row differ little."""
    q, k, v = drawn(rng)
    q = torch.where(torch.arange(4)[:, None] % 2 == 0, 1.0, -1.0) * (0.5 + q.abs())
    return q, k + 1000, v


MASKED: Mapping[str, Sampler] = {
    "4 queries, 4 keys": lambda rng: drawn(rng),
    "3 queries, 4 keys, two heads": lambda rng: drawn(rng, 1, 2, n=3),
    "a query that sees no key": lambda rng: (*drawn(rng), holes(4, 4, empty=1)),
    "scores near 1000 and -1000": far_away,
}
