"""Repair: a loss under autocast

1. Which operation of forward computes in bfloat16 under autocast, although its inputs are float32?
   How large are the scores, and how far apart are neighboring numbers of that size in bfloat16?
2. Both methods are to compute in float32, with autocast off. torch.amp has a decorator for each;
   one of them takes the dtype in which forward wants its inputs.
3. @custom_fwd(device_type="cpu", cast_inputs=torch.float32) on forward and
   @custom_bwd(device_type="cpu") on backward, each below @staticmethod.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import same_under_autocast
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def contrast(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    """Return the cross entropy of each query against all keys; its own key is the target."""
    scores = q @ k.t() / temperature
    return torch.logsumexp(scores, 1) - scores.diagonal()


def pairs(rng: torch.Generator, n: int, d: int, temperature: float) -> tuple[Tensor, Tensor, float]:
    """Return queries, keys that resemble them, and a temperature."""
    q = normal(rng, n, d)
    return q, q + 0.5 * normal(rng, n, d), temperature


def sharp(n: int = 12, d: int = 8) -> tuple[Tensor, Tensor, float]:
    """Return queries and keys of length 1 and a low temperature, in float32."""
    rng, normalize = torch.Generator().manual_seed(0), torch.nn.functional.normalize
    q = normalize(normal(rng, n, d))
    return q.float(), normalize(q + normal(rng, n, d)).float(), 0.02


EXERCISE = FunctionExercise(
    answer="Contrast",
    points=2,
    section="Autocast",
    bounds="autocast costs it no digits",
    reference=contrast,
    samplers={
        "5 pairs of 3 numbers": lambda rng: pairs(rng, 5, 3, 0.5),
        "a single pair": lambda rng: pairs(rng, 1, 4, 1.0),
        "3 pairs, a low temperature": lambda rng: pairs(rng, 3, 4, 0.2),
    },
    accepted=("gradient-dtype", "precision"),  # float32 for bfloat16 is what it asks for
    checks=(same_under_autocast(*sharp()),),
)
