"""What an exercise is, and the kinds there are."""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

import torch
from autograd_doctor import Finding

from autograd_course.grader.verdict import Verdict

Sampler = Callable[[torch.Generator], tuple[Any, ...]]
Check = Callable[[type[torch.autograd.Function], tuple[Any, ...]], Finding | None]
Trial = Callable[[Callable[..., Any]], Verdict | None]
Difficulty = Literal["easy", "medium", "hard"]

# Rules that fail an answer even where the doctor only warns: a gradient that leaves ``backward``
# has the dtype and the shape of its input.
CONTRACT = ("gradient-dtype", "gradient-device", "unreduced-broadcast")
# Warnings that are never shown: exercises that want needs_input_grad to be used ask for it.
UNTOLD = ("wasted-gradient",)


class Section(str):
    """A heading in a lesson, which as a text is ``lesson 01, "What backward returns"``."""

    lesson: int
    heading: str

    def __new__(cls, lesson: int, heading: str) -> Section:
        """Return the heading of the lesson of a number."""
        section = super().__new__(cls, f'lesson {lesson:02}, "{heading}"')
        section.lesson, section.heading = lesson, heading
        return section

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return self.lesson, self.heading


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What all exercises have.

    ``id`` is kebab-case and is what a learner passes to ``grade`` and ``hint``. ``hints`` are
    three, from a nudge to nearly the answer. These two, ``lesson`` and ``title`` are not declared:
    they come from the place of the module and from its docstring (:func:`declared`).

    ``answer`` is the name of what a learner writes, and hands to ``grade``. An exercise is *easy*
    if it applies one pattern of the lesson, *medium* if it needs an idea of the learner's own or
    several conditions at once, and *hard* if it needs a derivation or a design of several steps.
    ``minutes`` says how long it takes a learner who has just read the lesson; they have to agree
    with the model in ``tools/minutes.py``. ``section`` is the
    heading in the lesson to reread; ``section_is_on_backward`` says that it does not help with
    forward. ``needs_sections`` are the other headings that the exercise needs, in its lesson or in
    one before. An exercise that needs an extra section gets a star. ``optional`` says that the
    exercise is for more practice and not part of the core path.
    ``constraints`` says in words what is asked beyond right values.
    ``needs`` returns the sentence that says what this machine lacks, ``None`` where an answer can
    be judged here.
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
        """What to reread."""
        return Section(int(self.lesson[:2]), self.section)


@dataclass(frozen=True, kw_only=True)
class Sampled(Exercise):
    """An exercise whose answer is compared with a reference on random inputs.

    ``reference`` has the arguments of what is asked for. ``samplers`` draw the inputs: each is
    ``rng -> inputs`` for one kind of use (a shape, an optional argument left out …), named by its
    key, the plainest first. ``suspects`` are mistakes that people make, each a callable with the
    arguments of the reference: an answer that gives what one of them gives is told its key, a
    sentence. ``seconds`` is the time that judging one sample, or a trial, may take; ``None`` is the
    grader's usual limit.
    """

    reference: Callable[..., Any]
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    suspects: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    seconds: float | None = None

    def samples(self, seed: int | None = None) -> dict[str, tuple[Any, ...]]:
        """Draw the inputs of every sampler: the same ones each time, whatever the random state."""
        seed = zlib.crc32(self.id.encode()) if seed is None else seed
        return {
            name: draw(torch.Generator().manual_seed(seed + i))
            for i, (name, draw) in enumerate(self.samplers.items())
        }

    @property
    def arguments(self) -> str:
        """The arguments that are asked for, as in ``x, ceiling=6.0``."""
        parameters = inspect.signature(self.reference).parameters.values()
        plain = (p.replace(annotation=inspect.Parameter.empty) for p in parameters)
        return ", ".join(map(str, plain))


@dataclass(frozen=True, kw_only=True)
class FunctionExercise(Sampled):
    """A ``torch.autograd.Function`` is to be written.

    The values of ``reference`` and its own autograd are the truth; of a straight-through estimator
    the autograd of ``surrogate``, a callable with the same arguments, is. ``intentional`` names
    rules that are by design. ``asked`` names rules that fail the answer even where the doctor only
    warns, in addition to :data:`CONTRACT`. ``accepted`` names rules whose warnings say nothing
    against an answer to this exercise. ``double_backward=True`` asks for right second derivatives
    too; ``False`` says that they are not asked for, and that no warning about them is shown.
    ``gradient_suspects`` are ``suspects`` whose gradients are those of a mistake. ``checks`` look,
    once the gradients are right, for what only this exercise asks: each is
    ``(Function, inputs) -> Finding | None``. ``modeled_on`` names the public bug that a repair is
    modeled on; it is told with the pass, when it gives nothing away anymore. ``methods`` are those
    that are asked for besides forward and backward, of ``"setup_context"``, ``"vmap"`` and
    ``"jvp"``. An exercise that does not ask for ``setup_context`` accepts answers with and without.
    """

    surrogate: Callable[..., Any] | None = None
    intentional: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    double_backward: bool | None = None
    gradient_suspects: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    modeled_on: str = ""
    methods: tuple[str, ...] = ()

    def signature(self, *, separate: bool = False) -> str:
        """Return the first line of the forward that is asked for, as in ``forward(ctx, x)``.

        ``separate``: the answer has a ``setup_context``, so its forward takes no ctx.
        """
        ctx = "" if separate or "setup_context" in self.methods else "ctx, "
        return f"forward({ctx}{self.arguments})"

    def is_failed_by(self, finding: Finding) -> bool:
        """Whether a finding makes the answer wrong: an error, or a warning that is asked about."""
        if finding.severity == "error":
            return True
        return finding.rule in {*CONTRACT, *self.asked}.difference(self.accepted)

    def warns_of(self, finding: Finding) -> bool:
        """Whether a learner who passed is shown a finding."""
        return finding.severity == "warning" and finding.rule not in {*UNTOLD, *self.accepted}


@dataclass(frozen=True, kw_only=True)
class RoutineExercise(Sampled):
    """A plain function is to be written, such as a Hessian-vector product or a training run.

    Its results are compared with those of ``reference``, to ``rtol`` and ``atol``. ``container`` is
    the type that holds several results, where the exercise says which. ``trials`` are
    experiments with it, run once the results are right: each is ``routine -> Verdict | None``.
    An exercise with trials only has no samplers.
    """

    container: type | None = None
    trials: tuple[Trial, ...] = ()
    rtol: float = 1e-7
    atol: float = 1e-9


@dataclass(frozen=True, kw_only=True)
class LocatingExercise(Exercise):
    """The learner says which line of a given Function is wrong, and which experiment shows it.

    The statement numbers the lines and letters the experiments. ``wrong_lines`` holds the numbers
    that count as right, mostly one, and ``lines`` says of each other line why it is right.
    ``experiment`` is the letter of the experiment that shows the mistake, and ``experiments`` says
    of the others why a correct Function gives the same result there. ``rule`` is what ``diagnose``
    calls the mistake.
    """

    rule: str
    wrong_lines: str
    lines: Mapping[str, str]
    experiment: str
    experiments: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PredictionExercise(Exercise):
    """The learner predicts numbers, one for each question, before a run gives them.

    ``outcome`` runs the code of the statement and returns the numbers. ``mistakes`` says why people
    expect another number, by the place of the question, from 1, and that number.
    """

    outcome: Callable[[], Sequence[float]]
    mistakes: Mapping[tuple[int, float], str]


def declared(module: ModuleType) -> Exercise:
    """Return the exercise of a module in ``autograd_course.exercises``.

    The module declares it as ``EXERCISE``. Its id is the name of the file, and its lesson that of
    the folder. The first line of the docstring is the title, the numbered list below it the hints.
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
    """Yield the title and the items of the numbered list, each as one line."""
    words: list[str] = []
    for line in docstring.splitlines():
        if item := re.match(r"\d\. ", line):
            yield " ".join(words)
            words = []
        words += line.removeprefix(item[0] if item else "").split()
    yield " ".join(words)
