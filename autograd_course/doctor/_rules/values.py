"""Rules of value: what a wrong gradient is instead of the true one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from autograd_course.doctor.comparing.mismatch import Mismatch, mismatches, return_line, witness
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules import axes
from autograd_course.doctor.rules import hypotheses as h
from autograd_course.doctor.rules.dependencies import missing_dependency
from autograd_course.doctor.rules.factors import constant_factor
from autograd_course.doctor.rules.meant import perhaps_meant
from autograd_course.doctor.rules.regions import region
from autograd_course.doctor.rules.registry import Decide, Seen, rule
from autograd_course.doctor.rules.wording import ordinal, raw_transpose
from autograd_course.doctor.words import elements, listed, paragraph


@dataclass(frozen=True)
class Hypothesis:
    """A named guess at what went wrong.

    ``otherwise`` is what the rule sees where the example's own gradients are right.
    """

    rule: str
    title: str
    fits: Callable[[Mismatch], str | None]
    hint: str
    lesson: str
    otherwise: Decide = lambda evidence: None


def _unexplained(m: Mismatch) -> str:
    where = elements(int(m.wrong.sum()), int(m.known.sum()))
    sample = "" if bool(m.known.all()) else " that were checked"
    off = f"the gradient of `{m.name}` is wrong at {where}{sample}"
    names = [name for name in m.evidence.pulls if name.startswith("only")]
    wrong = [n for n in names if m.slot in {other.slot for other in mismatches(m.evidence, n)}]
    if m.coarse:
        return f"{off}. The true gradient is not known precisely enough to say why"
    if not wrong or wrong == names:
        return off
    through, output = listed([*map(ordinal, wrong)], len(wrong)), "output" + "s" * (len(wrong) > 1)
    return f"{off}. The error comes only from the {through} {output}"


HYPOTHESES = (
    Hypothesis(
        "dim-argument",
        "the gradient is right along one dim and wrong along another",
        axes.wrong_dim,
        "Use the dim that the call passes. Look in `backward` for a fixed dim (-1, 0, shape[-1], a "
        "transpose) and for code that does not handle negative dims.",
        "03_gradient_patterns",
        axes.other_dim,
    ),
    Hypothesis(
        "undeclared-surrogate",
        "forward is piecewise constant, backward is not zero",
        h.undeclared_surrogate,
        "Either return zeros (the true gradient of a step function) or declare the surrogate "
        "gradient that you intend.",
        "04_straight_through",
    ),
    Hypothesis(
        "swapped-gradients",
        "two gradients are swapped",
        h.swapped_gradients,
        "Return the gradients in the order of the arguments of `forward`.",
        "01_template",
    ),
    Hypothesis(
        "missing-gradient",
        "a gradient is missing",
        h.missing_gradient,
        "Find the formula for this argument in `backward`, and look for a factor that is always 0. "
        "Return None only for an input that needs no gradient.",
        "01_template",
    ),
    Hypothesis(
        "extra-gradient",
        "an input gets a gradient but should get none",
        h.extra_gradient,
        "Return None for an input that does not affect the output or that is treated as a "
        "constant.",
        "01_template",
    ),
    Hypothesis(
        "non-finite",
        "backward returns nan or inf",
        h.non_finite,
        "Look for 0/0, inf·0 or a logarithm of 0 in the formula at this element.",
        "08_debugging_clinic",
        h.nan_at_a_kink,
    ),
    Hypothesis(
        "flipped-sign",
        "the sign is flipped",
        h.flipped_sign,
        "Derive the gradient by hand for a single number, and compare the signs.",
        "01_template",
    ),
    Hypothesis(
        "constant-factor",
        "the gradient is off by a constant factor",
        constant_factor,
        "Compare the constants in `forward` and `backward` (an exponent, the 1/N of a mean, a "
        "scale, an inner derivative). One of them is missing from `backward` or occurs there "
        "twice.",
        "01_template",
    ),
    Hypothesis(
        "transposed-gradient",
        "the gradient is transposed",
        h.transposed_gradient,
        "Check the order of the factors and the transposes: for Y = A B with `grad_output` G, the "
        "gradients are G Bᵀ for A and Aᵀ G for B.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "missing-conjugate",
        "the complex conjugate is missing",
        h.missing_conjugate,
        "Conjugate the local derivative: for a holomorphic f, PyTorch's gradient is `grad_output` "
        "times the conjugate of f'.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "missing-cross-terms",
        "backward uses only the diagonal of the Jacobian",
        h.missing_cross_terms,
        "Sum over all outputs that depend on an input: each of them adds a term to its gradient.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "duplicate-index",
        "the gradient is wrong where an index repeats",
        h.duplicate_index,
        "Use `index_add_` or `scatter_add_` instead of an assignment: the gradients of repeated "
        "indices add up.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "off-by-one",
        "the gradient is wrong at an edge",
        h.off_by_one,
        "Compare the first and last index of every range, padding and window in `backward` with "
        "those in `forward`.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "wrong-region",
        "the gradient is wrong for some input values",
        region,
        "Compare the masks and conditions in `backward` with the branches of `forward`, and check "
        "which branch this input takes.",
        "01_template",
    ),
    Hypothesis(
        "batch-dimension",
        "a batch and its slices give different gradients",
        axes.wrong_batch,
        "Check every sum, mean, index and squeeze in `backward`. Each slice along dim 0 must get "
        "its own gradient, and an input that the slices share must get the sum of their "
        "gradients.",
        "03_gradient_patterns",
        axes.other_batch,
    ),
    Hypothesis(
        "missing-dependency",
        "backward treats a dependency as a constant",
        missing_dependency,
        "Write `forward` as a chain of steps, and find every path from this input to the output. "
        "Each path adds one term to the gradient.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "permuted-gradient",
        "the gradient has the right values at the wrong positions",
        h.permuted_gradient,
        "Undo the reordering of `forward` in `backward`: apply the inverse permutation, not the "
        "same permutation again.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "gradient-mismatch",
        "the gradient is wrong, without a simple pattern",
        _unexplained,
        "Check one element by hand: derive the formula, substitute these numbers, and compare.",
        "08_debugging_clinic",
    ),
)


# These go by which elements are wrong: where few digits are known, small ones pass for right.
BY_PLACE = (
    "dim-argument",
    "duplicate-index",
    "off-by-one",
    "batch-dimension",
    "permuted-gradient",
)

_EXPLAINED: WeakKeyDictionary[Evidence, dict[str, Seen]] = WeakKeyDictionary()


def explain(evidence: Evidence) -> dict[str, Seen]:
    """Return what each value rule sees; it is worked out once for all the rules that ask."""
    if evidence not in _EXPLAINED:
        _EXPLAINED[evidence] = _explained(evidence)
    return _EXPLAINED[evidence]


def _explained(evidence: Evidence) -> dict[str, Seen]:
    """Give every wrong input one explanation, the first that fits, and gather them by rule."""
    found: dict[str, list[tuple[Mismatch, str]]] = {}
    for m in mismatches(evidence):
        for hypothesis in HYPOTHESES:
            by_chance = m.coarse and hypothesis.rule in BY_PLACE
            sentence = None if by_chance else hypothesis.fits(m)
            if sentence is not None:
                found.setdefault(hypothesis.rule, []).append((m, sentence))
                break
    seen = {name: _told(name, explained) for name, explained in found.items()}
    turned = _turned(evidence)
    return seen if turned is None else {**seen, "transposed-gradient": turned}


def _told(rule: str, explained: list[tuple[Mismatch, str]]) -> Seen:
    wrong = [m for m, _ in explained]
    sentences = once_said(dict.fromkeys(sentence for _, sentence in explained))
    seen = {"inputs": [m.name for m in wrong], **witness(wrong[0]), **perhaps_meant(rule, wrong)}
    return Seen(paragraph(sentences), seen)


def once_said(sentences: Iterable[str]) -> list[str]:
    """Return the first sentence on each input; what follows them all, at the end and once."""
    told = [sentence.partition(". ")[::2] for sentence in sentences]
    (_, rest), *_ = told
    if any(other != rest for _, other in told):
        return list(sentences)
    return [*(first for first, _ in told), *filter(None, [rest])]


def _asked(hypothesis: Hypothesis, evidence: Evidence) -> Seen | None:
    return explain(evidence).get(hypothesis.rule) or hypothesis.otherwise(evidence)


def _turned(evidence: Evidence) -> Seen | None:
    """A raw gradient of the wrong shape that is right once transposed."""
    for position in evidence.wanted:
        if raw_transpose(evidence, position):
            name = evidence.name(position)
            return Seen(
                f"the gradient of `{name}` is the true gradient with its last two dims swapped, so "
                f"it does not have the shape {tuple(evidence.inputs[position].shape)} of `{name}`.",
                {"inputs": [name], "line": return_line(evidence.backward_source)},
            )
    return None


# A mismatch that a broken contract, a non-linear backward or a wrong forward explains is not news.
_AFTER = (
    "linearity",
    "forward-mismatch",
    "wrong-arity",
    "gradient-shape",
    "unreduced-broadcast",
    "mutates-input",
    "mutates-grad-output",
    "mutates-saved",
    "saved-tensors-in-forward",
    "backward-raises",
    "gradient-dtype",
)

for _hypothesis in HYPOTHESES:
    rule(
        _hypothesis.rule,
        "values",
        "error",
        _hypothesis.title,
        hint=_hypothesis.hint,
        lesson=_hypothesis.lesson,
        after=_AFTER,
        by_design=("wrong-jvp",),  # which compares forward mode with backward
    )(partial(_asked, _hypothesis))
