"""Rules of value: what a wrong gradient is instead of the true one."""

from __future__ import annotations

from collections.abc import Callable
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
    counts = f"{int(m.wrong.sum())} of {int(m.known.sum())}"
    off = f"the gradient of {m.name} is wrong at {counts} elements"
    names = [name for name in m.evidence.pulls if name.startswith("only")]
    wrong = [n for n in names if m.slot in {other.slot for other in mismatches(m.evidence, n)}]
    if m.coarse:
        return f"{off}; too few digits are known to say how"
    if not wrong or wrong == names:
        return off
    through = " and ".join(ordinal(name) for name in wrong)
    return f"{off}: only what comes back through the {through} output is wrong"


HYPOTHESES = (
    Hypothesis(
        "dim-argument",
        "right along one axis, wrong along another",
        axes.wrong_dim,
        "Where is an axis written as a number (-1, 0, shape[-1], a transpose) that should be the "
        "one the call names, counted from the front or from the back?",
        "03_gradient_patterns",
        axes.other_dim,
    ),
    Hypothesis(
        "undeclared-surrogate",
        "forward is piecewise constant, backward is not zero",
        h.undeclared_surrogate,
        "The true gradient of a step is zero. Is a straight-through estimator meant?",
        "04_straight_through",
    ),
    Hypothesis(
        "swapped-gradients",
        "two gradients are in each other's place",
        h.swapped_gradients,
        "backward returns gradients in the order of forward's arguments.",
        "01_template",
    ),
    Hypothesis(
        "missing-gradient",
        "a gradient is missing",
        h.missing_gradient,
        "Which formula of backward belongs to this argument, and which factor of it is always 0? "
        "None says that an input gets no gradient.",
        "01_template",
    ),
    Hypothesis(
        "extra-gradient",
        "a gradient where there is none",
        h.extra_gradient,
        "An input that does not change the output, or is to be held fixed, gets None.",
        "01_template",
    ),
    Hypothesis(
        "non-finite",
        "backward returns nan or inf",
        h.non_finite,
        "Look for 0/0, inf·0 or a logarithm of 0 in the formula at this element.",
        "08_debugging_clinic",
    ),
    Hypothesis(
        "flipped-sign",
        "the sign is flipped",
        h.flipped_sign,
        "Derive the sign again, with one number by hand.",
        "01_template",
    ),
    Hypothesis(
        "constant-factor",
        "off by a constant factor",
        constant_factor,
        "Which constant of forward is missing from the derivative, or is there twice: a power, a "
        "mean's 1/N, a scale, an inner derivative?",
        "01_template",
    ),
    Hypothesis(
        "transposed-gradient",
        "transposed",
        h.transposed_gradient,
        "For y = A B the shapes force dA = g Bᵀ and dB = Aᵀ g: check the order and the transposes.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "missing-conjugate",
        "the complex conjugate is missing",
        h.missing_conjugate,
        "PyTorch's gradient of a holomorphic f is grad_output times the conjugate of f'.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "missing-cross-terms",
        "only the Jacobian's diagonal",
        h.missing_cross_terms,
        "Every output that depends on an input sends a term to it: sum over all of them.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "duplicate-index",
        "wrong where an index repeats",
        h.duplicate_index,
        "Repeated indices add up: index_add_ or scatter_add_, not an assignment.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "off-by-one",
        "wrong at an edge",
        h.off_by_one,
        "Check the first and last index of every range, padding and window of backward against "
        "forward's.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "wrong-region",
        "wrong on a region of inputs",
        region,
        "Compare the mask or condition of backward with the branches of forward: which branch is "
        "this input on?",
        "01_template",
    ),
    Hypothesis(
        "batch-dimension",
        "a batch is not what its slices are",
        axes.wrong_batch,
        "Each slice of axis 0 gets its own gradient, what the slices share gets the sum: over "
        "which axes does backward sum, average, index or squeeze?",
        "03_gradient_patterns",
        axes.other_batch,
    ),
    Hypothesis(
        "missing-dependency",
        "a dependency was held fixed",
        missing_dependency,
        "Write forward as a chain of steps and count every path from this input to the output: "
        "each path is one term of the gradient.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "permuted-gradient",
        "right values, wrong places",
        h.permuted_gradient,
        "Whatever forward reorders, backward must put back: the inverse permutation, not the "
        "same one.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "gradient-mismatch",
        "wrong, in no simple way",
        _unexplained,
        "Check one element by hand: derive the formula, put in these numbers, compare.",
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
    sentences = dict.fromkeys(sentence for _, sentence in explained)
    seen = {"inputs": [m.name for m in wrong], **witness(wrong[0]), **perhaps_meant(rule, wrong)}
    return Seen("; ".join(sentences) + ".", seen)


def _asked(hypothesis: Hypothesis, evidence: Evidence) -> Seen | None:
    return explain(evidence).get(hypothesis.rule) or hypothesis.otherwise(evidence)


def _turned(evidence: Evidence) -> Seen | None:
    """A raw gradient of the wrong shape that is right once transposed."""
    for position in evidence.wanted:
        if raw_transpose(evidence, position):
            name = evidence.name(position)
            return Seen(
                f"the gradient of {name} is the true one with its last two axes exchanged, so its "
                f"shape does not fit {tuple(evidence.inputs[position].shape)}.",
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
