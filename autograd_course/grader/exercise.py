"""Define the kinds of exercises and load an exercise from its module."""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

import torch
from autograd_doctor import RULES, Finding

from autograd_course.execution import Computed
from autograd_course.grader.verdict import Verdict

Sampler = Callable[[torch.Generator], tuple[Any, ...]]
Check = Callable[[type[torch.autograd.Function], tuple[Any, ...]], Finding | Computed | None]
Trial = Callable[[Callable[..., Any]], Verdict | None]
Difficulty = Literal["easy", "medium", "hard"]


def by_values(check: Check) -> Check:
    """Mark a check that looks only at outputs and gradients, so that any process can run it."""
    setattr(check, _BY_VALUES, True)
    return check


def is_by_values(check: Check) -> bool:
    """Return whether a check looks only at outputs and gradients."""
    return getattr(check, _BY_VALUES, False) is True


_BY_VALUES = "by_values"


def measures_peak(check: Check) -> bool:
    """Return whether a check measures memory while the answer runs."""
    return getattr(check, _MEASURES_PEAK, False) is True


def with_peak(check: Check) -> Check:
    """Mark a check that measures the memory of tensors while the answer runs."""
    setattr(check, _MEASURES_PEAK, True)
    return check


_MEASURES_PEAK = "measures_peak"


def forbid(check: Check, operations: Iterable[str]) -> Check:
    """Record the names of the operations that a check forbids."""
    setattr(check, _FORBIDS, frozenset(operations))
    return check


def forbidden_by(check: Check) -> frozenset[str]:
    """Return the names of the operations that a check forbids."""
    names: frozenset[str] = getattr(check, _FORBIDS, frozenset())
    return names


_FORBIDS = "forbids"

# An answer fails if it breaks one of these rules, even if the doctor only warns. They require each
# gradient from ``backward`` to have the dtype, device and shape of its input. They also require a
# gradient to flow through each output that depends on the inputs.
CONTRACT = (
    "gradient-dtype",
    "gradient-device",
    "unreduced-broadcast",
    "wrong-non-differentiable",
)
# Learners never see these warnings. Exercises about needs_input_grad list the rule in ``asked``.
UNTOLD = ("wasted-gradient",)


class Section(str):
    """A heading in a lesson, as text. For example, ``lesson 01, "What backward returns"``."""

    lesson: int
    heading: str

    def __new__(cls, lesson: int, heading: str) -> Section:
        """Create the text for a heading in the lesson with this number."""
        section = super().__new__(cls, f'lesson {lesson:02}, "{heading}"')
        section.lesson, section.heading = lesson, heading
        return section

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return self.lesson, self.heading


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """The fields that all exercises have.

    ``id`` is kebab-case, and learners pass it to ``grade`` and ``hint``. There are three ``hints``,
    from a nudge to almost the whole answer. The module of the exercise does not declare the ``id``,
    ``lesson``, ``title`` or ``hints``. :func:`declared` takes them from the module's path and
    docstring.

    ``answer`` is the name of the object that a learner writes and passes to ``grade``. An exercise
    is *easy* if it applies one pattern from the lesson. It is *medium* if it needs the learner's
    own idea or several conditions at once, and *hard* if it needs a derivation or a design with
    several steps. ``minutes`` is the time that a learner needs after reading the lesson. It must
    agree with the model in ``tools/minutes.py``. ``section`` is the heading of the section to
    reread, and ``section_is_on_backward`` says whether this section is only about backward.
    ``needs_sections`` lists the other sections that the exercise relies on, in its lesson or in an
    earlier one. An exercise that needs an extra section gets a star. An ``optional`` exercise
    offers extra practice and is not part of the core path. ``constraints`` is one sentence, without
    its period, that describes all requirements except correct values. ``needs`` returns a sentence
    that names a missing tool, or ``None`` if this machine can grade an answer.
    """

    id: str = ""
    lesson: str = ""
    title: str = ""
    hints: tuple[str, ...] = ()
    answer: str
    points: int
    difficulty: Difficulty
    minutes: int
    section: str
    section_is_on_backward: bool = False
    needs_sections: tuple[str, ...] = ()
    optional: bool = False
    constraints: str = ""
    needs: Callable[[], str | None] | None = None

    @property
    def read(self) -> Section:
        """The section that the learner should reread."""
        return Section(int(self.lesson[:2]), self.section)


@dataclass(frozen=True, kw_only=True)
class Sampled(Exercise):
    """An exercise whose answer is compared with a reference on random inputs.

    ``reference`` takes the same arguments as the answer. ``samplers`` maps names to functions. Each
    function takes ``rng`` and draws inputs of one kind, for example with a certain shape or without
    an optional argument. The simplest sampler comes first. ``suspects`` are common mistakes, each
    of which is a callable with the arguments of the reference. If an answer gives the same results
    as a suspect, the learner sees the suspect's key, which is a sentence. ``seconds`` is the time
    limit for one sample or trial, or ``None`` for the usual limit.
    """

    reference: Callable[..., Any]
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    suspects: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    seconds: float | None = None

    def samples(self, seed: int | None = None) -> dict[str, tuple[Any, ...]]:
        """Draw inputs from each sampler. The global random state has no effect on them."""
        seed = zlib.crc32(self.id.encode()) if seed is None else seed
        return {
            name: draw(torch.Generator().manual_seed(seed + i))
            for i, (name, draw) in enumerate(self.samplers.items())
        }

    @property
    def arguments(self) -> str:
        """The answer's arguments as text, such as ``x, ceiling=6.0``."""
        parameters = inspect.signature(self.reference).parameters.values()
        plain = (p.replace(annotation=inspect.Parameter.empty) for p in parameters)
        return ", ".join(map(str, plain))


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(Sampled):
    """An exercise in which the learner writes a ``torch.autograd.Function``.

    The expected results are the values of ``reference`` and the gradients that autograd computes
    for ``reference``. For a straight-through estimator, the expected gradients are those of
    ``surrogate``, a callable with the same arguments. ``intentional`` names rules that the exercise
    breaks on purpose. ``asked`` adds rules to :data:`CONTRACT`. An answer that breaks one of them
    fails, even if the doctor only warns. ``accepted`` names rules whose warnings this exercise
    ignores. If ``double_backward`` is true, the second derivatives must also be correct. Otherwise
    the learner sees no warning about second derivatives. ``gradient_suspects`` return the right
    values, but each has a common mistake in its gradients. If the gradients are correct, ``checks``
    test the constraints of this exercise. Each check takes a Function and inputs, and returns a
    Finding or ``None``. It can also return a ``Computed``, which the grader compares with the
    reference.
    ``causes`` are further checks, which run after ``diagnose`` has found a mistake. If such a check
    returns a finding under the same rule, the learner sees the hint of that finding, which names
    the cause in this exercise. ``modeled_on`` names the public bug that a repair exercise is
    modeled on. Learners see this name after they pass the exercise. ``methods`` are the required
    methods besides forward and backward: ``"setup_context"``, ``"vmap"`` or ``"jvp"``. If
    ``methods`` does not contain ``"setup_context"``, this method is optional.
    """

    surrogate: Callable[..., Any] | None = None
    intentional: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    double_backward: bool | None = None
    gradient_suspects: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    causes: tuple[Check, ...] = ()
    modeled_on: str = ""
    methods: tuple[str, ...] = ()

    @property
    def every_check(self) -> tuple[Check, ...]:
        """The checks that test the constraints, followed by the checks that name a cause."""
        return (*self.checks, *self.causes)

    def signature(self, *, separate: bool = False) -> str:
        """Return the signature of the required forward, such as ``forward(ctx, x)``.

        If ``separate`` is true, the answer has a ``setup_context``, so its forward does not take
        ctx.
        """
        ctx = "" if separate or "setup_context" in self.methods else "ctx, "
        return f"forward({ctx}{self.arguments})"

    def is_failed_by(self, finding: Finding) -> bool:
        """Return whether this finding makes an answer fail.

        Every error makes the answer fail, and so does a warning about a required rule.
        """
        if finding.severity == "error":
            return True
        if "lacks" in finding.evidence:  # a dtype that a library lacks is not the answer's fault
            return False
        return finding.rule in {*CONTRACT, *self.asked}.difference(self.accepted)

    def is_failed_elsewhere(self, finding: Finding) -> bool:
        """Return whether this finding shows a wrong gradient for other inputs than the sample.

        The doctor only warns about it, because a caller's tensors may depend on each other. An
        exercise's tensors do not, so the answer fails.
        """
        rule = RULES[finding.rule]
        of_values = rule.severity == "error" and rule.family in ("linearity", "values")
        return of_values and finding.severity == "warning"

    def warns_of(self, finding: Finding) -> bool:
        """Return whether a learner whose answer passed sees this finding as a warning."""
        return finding.severity == "warning" and finding.rule not in {*UNTOLD, *self.accepted}


@dataclass(frozen=True, kw_only=True)
class RoutineExercise(Sampled):
    """An exercise in which the learner writes a plain function, such as a training run.

    The grader compares the answer's results with the results of ``reference``, with the tolerances
    ``rtol`` and ``atol``. ``raising`` maps sentences to suspects that raise an exception. If an
    answer raises the same exception, the learner sees the sentence. ``container`` is the required
    collection type of the results, or ``None`` if any type is allowed. ``trials`` are experiments
    that run if the results are correct. Each trial is ``routine -> Verdict | None``. An exercise
    with only trials has no samplers.
    """

    raising: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    container: type | None = None
    trials: tuple[Trial, ...] = ()
    rtol: float = 1e-7
    atol: float = 1e-9


@dataclass(frozen=True, kw_only=True)
class LocatingExercise(Exercise):
    """An exercise in which the learner names the faulty line and an experiment that reveals it.

    The statement numbers the lines and labels the experiments with letters. ``wrong_lines``
    contains the line numbers that are correct answers, usually one number. For every other line,
    ``lines`` explains why that line is not the mistake. ``experiment`` is the letter of the
    experiment that reveals the mistake. For every other experiment, ``experiments`` explains why
    that experiment does not reveal it. ``rule`` is the ``diagnose`` rule that describes the
    mistake.
    """

    rule: str
    wrong_lines: str
    lines: Mapping[str, str]
    experiment: str
    experiments: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PredictionExercise(Exercise):
    """An exercise in which the learner predicts a number for each question before the code runs.

    ``outcome`` runs the code in the statement and returns the correct numbers. ``mistakes`` maps
    pairs to explanations. A pair consists of the number of a question, starting at 1, and a common
    wrong answer.
    """

    outcome: Callable[[], Sequence[float]]
    mistakes: Mapping[tuple[int, float], str]


def declared(module: ModuleType) -> Exercise:
    """Return the exercise that a module in ``autograd_course.exercises`` declares.

    The module assigns the exercise to ``EXERCISE``. The file name is the id of the exercise, and
    the folder name is its lesson. The first line of the docstring is the title, and the numbered
    list below the title contains the hints.
    """
    folder, name = module.__name__.split(".")[-2:]
    title, *hints = parts(module.__doc__ or "")
    exercise: Exercise = module.EXERCISE
    return replace(
        exercise,
        id=name.replace("_", "-"),
        lesson=folder.removeprefix("lesson_"),
        title=title,
        hints=tuple(hints),
    )


def parts(docstring: str) -> Iterator[str]:
    """Yield the title and then each item of the numbered list, each as a single line."""
    words: list[str] = []
    for line in docstring.splitlines():
        if item := re.match(r"\d\. ", line):
            yield " ".join(words)
            words = []
        words += line.removeprefix(item[0] if item else "").split()
    yield " ".join(words)
