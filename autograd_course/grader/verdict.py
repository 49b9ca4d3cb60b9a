"""The verdict on one answer: a status, a reason, and the evidence.

A :class:`Reason` is data. The grader looks only at the type of a reason, never at a sentence. At
the end, :func:`describe` writes the sentence. Therefore, no code depends on its wording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from autograd_doctor import Finding
from autograd_doctor.formatting import distinguish, listed, number, sentence
from autograd_doctor.repair import Repair

from autograd_course.execution import WHOLE
from autograd_course.grader.comparison import Difference
from autograd_course.submitted import WrongThing

Status = Literal["passed", "wrong", "not attempted", "grader failed"]


# --------------------------------------------------------------------------------------------------
# Reasons, sorted by their status
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """The reason why an answer has its status."""

    status: ClassVar[Status]


class Passed(Reason):
    """The answer is correct."""

    status: ClassVar[Status] = "passed"


class NotAttempted(Reason):
    """The learner has not written the answer yet."""

    status: ClassVar[Status] = "not attempted"


class Wrong(Reason):
    """The answer is wrong."""

    status: ClassVar[Status] = "wrong"


class GraderFailed(Reason):
    """The grader itself failed. The answer did not cause the failure."""

    status: ClassVar[Status] = "grader failed"


@dataclass(frozen=True)
class FunctionAgrees(Passed):
    """The values and gradients of a Function agree with ``truth``."""

    truth: Literal["reference", "surrogate", "second derivatives"]
    constraints: str
    samples: tuple[str, ...]
    modeled_on: str = ""


@dataclass(frozen=True)
class RoutineAgrees(Passed):
    """A routine agrees with the reference and passes the trials. The number of samples can be 0."""

    constraints: str
    samples: tuple[str, ...]


@dataclass(frozen=True)
class Located(Passed):
    """The line and the experiment are correct. ``meaning`` explains the rule."""

    line: str
    experiment: str
    rule: str
    meaning: str
    constraints: str


@dataclass(frozen=True)
class Predicted(Passed):
    """Each predicted number agrees with the result of the code."""

    outcome: tuple[float, ...]
    constraints: str


@dataclass(frozen=True)
class NothingHandedIn(NotAttempted):
    """The answer is still the placeholder. The learner has to write ``what``."""

    exercise: str
    what: Literal["class", "function", "suspect", "prediction"]


@dataclass(frozen=True)
class BaseClassHandedIn(NotAttempted):
    """The answer is ``torch.autograd.Function`` itself."""


@dataclass(frozen=True)
class Unwritten(NotAttempted):
    """A part of the answer is a stub. ``part`` is the name of a method, or :data:`WHOLE`.

    ``signature`` is the first line to write. ``forward`` is the verdict on forward: ``"right"``, a
    mistake, or ``None`` if forward was not examined.
    """

    part: str
    signature: str = ""
    forward: Literal["right"] | Reason | None = None


@dataclass(frozen=True)
class NotAttemptedBecause(NotAttempted):
    """A sentence from one of the exercise's trials, or from the code that looked for the answer."""

    text: str


@dataclass(frozen=True)
class RuleBroken(Wrong):
    """A rule of ``diagnose`` describes the mistake."""

    finding: Finding


@dataclass(frozen=True)
class ResultDiffers(Wrong):
    """A routine's results differ from the reference. ``mistake`` names the cause, if known."""

    difference: Difference
    mistake: str = ""


# The wrong kinds of objects that a learner may pass instead of an answer.
Kind = WrongThing | Literal["no numbers", "no text"]


@dataclass(frozen=True)
class WrongKind(Wrong):
    """The learner passed an object that is not an answer. ``name`` is its name or its type."""

    kind: Kind
    name: str
    exercise: str


@dataclass(frozen=True)
class WrongArguments(Wrong):
    """The answer does not accept the exercise's arguments."""

    part: str
    signature: str


@dataclass(frozen=True)
class CodeRaised(Wrong):
    """The answer's own code raised an exception. ``told`` names the exception and the line.

    ``known`` is the sentence about a known mistake that raises the same exception. ``in_check``
    says whether one of the exercise's checks called the answer, perhaps with its own inputs.
    """

    told: str
    in_float32: bool = False
    in_check: bool = False
    known: str = ""


@dataclass(frozen=True)
class Stopped(Wrong):
    """The time ran out while the answer's own code was running, at ``line``.

    The environment variable ``variable`` sets a different limit.
    """

    seconds: float
    line: str
    code: Literal["your code", "the cell"] = "your code"
    variable: str = ""


@dataclass(frozen=True)
class NoSuchChoice(Wrong):
    """The answer does not name a line and an experiment that the exercise contains."""

    typed: str
    last_line: str
    last_experiment: str


@dataclass(frozen=True)
class LineIsRight(Wrong):
    """The line that the learner chose is correct. ``because`` explains why."""

    line: str
    because: str


@dataclass(frozen=True)
class ExperimentIsBlind(Wrong):
    """The learner found the faulty line, but the chosen experiment does not reveal the mistake."""

    line: str
    experiment: str
    because: str


@dataclass(frozen=True)
class WrongCount(Wrong):
    """The answer has too few or too many numbers."""

    typed: int
    asked: int


@dataclass(frozen=True)
class Mispredicted(Wrong):
    """The code gives a different number. ``because`` explains a common mistake, if there is one."""

    place: int
    typed: float
    because: str = ""


@dataclass(frozen=True)
class WrongBecause(Wrong):
    """A sentence from one of the exercise's trials, or from the code that ran the answer."""

    text: str


@dataclass(frozen=True)
class ForbiddenCode(Wrong):
    """The values are correct, but the source contains forbidden code, which ``uses`` describes."""

    uses: tuple[str, ...]


@dataclass(frozen=True)
class OutOfTime(GraderFailed):
    """Grading took too long, but not because of the answer. ``variable`` sets a different limit."""

    seconds: float
    variable: str = ""


@dataclass(frozen=True)
class CannotExamine(GraderFailed):
    """``diagnose`` could not examine the answer."""

    error: str


@dataclass(frozen=True)
class MissingRequirement(GraderFailed):
    """The answer raised an error because a package or tool that it needs is not installed."""

    missing: str
    in_sandbox: bool = False


@dataclass(frozen=True)
class InternalError(GraderFailed):
    """The grader raised an exception."""

    error: str
    text: str


@dataclass(frozen=True)
class Hindered(GraderFailed):
    """The grader failed on this answer, but it does not fail on a correct answer."""

    reason: Reason


@dataclass(frozen=True)
class GraderFailedBecause(GraderFailed):
    """A sentence from one of the exercise's trials, or from the code that ran the answer."""

    text: str


# --------------------------------------------------------------------------------------------------
# The sentences
# --------------------------------------------------------------------------------------------------

_TRUTHS = {
    "reference": "`forward` and every gradient agree with the reference",
    "surrogate": "`forward` agrees with the reference and every gradient with the declared "
    "surrogate",
    "second derivatives": "`forward`, every gradient and every second derivative agree with the "
    "reference",
}
_KINDS: dict[Kind, str] = {
    "apply": 'hand in the class itself: grade("{exercise}", {name}).',
    "Function instance": "this is an instance of {name}; hand in the class {name} itself.",
    "Module class": "{name} is an nn.Module, on which PyTorch never calls a backward; "
    "write class {name}(torch.autograd.Function).",
    "other class": "{name} is a class but not a Function; "
    "write class {name}(torch.autograd.Function).",
    "no class": "this is {name}; hand in a subclass of torch.autograd.Function: "
    'grade("{exercise}", YourClass).',
    "Function class": "this is a Function class; this exercise asks for a plain function: "
    'grade("{exercise}", your_function).',
    "no function": 'this is {name}, not a function: grade("{exercise}", your_function), '
    "without calling it.",
    "no numbers": "this is of type {name}; hand in a list with one number for each question: "
    'grade("{exercise}", [1, ...]).',
    "no text": "this is of type {name}; hand in a line and an experiment as text: "
    'grade("{exercise}", "1a").',
}
_NOTHING = {
    "class": 'there is no answer yet: write the class, then grade("{exercise}", YourClass).',
    "function": "there is no answer yet: write the function, then "
    'grade("{exercise}", your_function).',
    "prediction": "there is no answer yet: write a number for each question, then "
    'grade("{exercise}", prediction).',
    "suspect": 'there is no answer yet: name a line and an experiment, such as "1a", then '
    'grade("{exercise}", suspect).',
}


def describe(reason: Reason) -> str:  # one case for each reason
    """Return the sentence that describes a reason. It may begin with a lowercase letter."""
    match reason:
        case FunctionAgrees(truth, constraints, samples, model):
            modeled = f" Modeled on {model}." if model else ""
            return f"{_TRUTHS[truth]}.{_also(constraints)}{_tried_on(samples)}{modeled}"
        case RoutineAgrees(constraints, samples):
            right = "the results agree with the reference" if samples else "it passes every trial"
            return f"{right}.{_also(constraints)}{_tried_on(samples)}"
        case Located(line, experiment, rule, meaning, constraints):
            called = f"`diagnose` calls the mistake `{rule}`: {meaning}.{_also(constraints)}"
            return f"line {line} is wrong, and experiment {experiment} shows it. {called}"
        case NothingHandedIn(exercise, what):
            return _NOTHING[what].format(exercise=exercise)
        case BaseClassHandedIn():
            return "this is torch.autograd.Function itself: write a subclass of it."
        case Unwritten():
            return _describe_unwritten(reason)
        case RuleBroken(finding):
            return finding.message
        case ResultDiffers(difference, mistake):
            return f"{difference.message}{_element(difference)} {mistake}".rstrip()
        case WrongKind(kind, name, exercise):
            return _KINDS[kind].format(name=name, exercise=exercise)
        case WrongArguments(part, signature):
            return f"{_part(part)} does not take the arguments of this exercise: write {signature}."
        case CodeRaised(told, in_float32, in_check, known):
            where = "in float32, " if in_float32 else ""
            if in_check:
                where = "when the grader checks a requirement of the exercise, "
            return f"{where}{told} {known}".rstrip()
        case Stopped(seconds, line, code, variable):
            more = f", or set {variable} to a larger number of seconds" if variable else ""
            return (
                f"stopped after {seconds:g} s in {code}{line}, before it had a result to check. Is "
                f"there an endless loop? If the code is only slow, make it faster{more}."
            )
        case Predicted(outcome, constraints):
            given = listed([number(it) for it in outcome], most=len(outcome))
            return f"the run gives {given}.{_also(constraints)}"
        case WrongCount(typed, asked):
            return f"hand in {asked} numbers, one for each question. These are {typed}."
        case Mispredicted(place, typed, because):
            other = f"number {place} of your list: the run does not give {number(typed, 15)}."
            return f"{other} {because}".rstrip()
        case NoSuchChoice(typed, line, experiment):
            choices = f"a line from 1 to {line} and an experiment from a to {experiment}"
            return f'"{typed}" is not an answer. Hand in {choices}, such as "1a".'
        case LineIsRight(line, because):
            return f"line {line} is right. {because}"
        case ExperimentIsBlind(line, experiment, because):
            return (
                f"line {line} is wrong, as you say, but experiment {experiment} does not show it. "
                f"{because}"
            )
        case ForbiddenCode(uses):
            more = f" {len(uses) - 1} more lines do what is not allowed." if len(uses) > 2 else ""
            more = f" Also, {uses[1]}." if len(uses) == 2 else more
            return (
                f"the values are right, but {uses[0]}. An answer must not do that.{more} If your "
                "answer does not need this code, remove it or move it to another cell."
            )
        case OutOfTime(seconds, variable):
            remedy = f" Set {variable} to a larger number of seconds." if variable else ""
            return f"grading took longer than {seconds:g} s.{remedy}"
        case CannotExamine(error):
            return f"`diagnose` could not examine this answer: {error}"
        case MissingRequirement(missing, in_sandbox):
            return f"in the sandbox: {missing.rstrip('.')}." if in_sandbox else missing
        case InternalError(error, text):
            return f"{error} inside the grader: {text}"
        case Hindered(hindrance):
            how = describe(hindrance)
            return (
                f"the grader cannot examine this answer, although it can examine a right one: {how}"
            )
        case NotAttemptedBecause(text) | WrongBecause(text) | GraderFailedBecause(text):
            return text
    raise TypeError(f"there is no sentence for {type(reason).__name__}")


def _describe_unwritten(reason: Unwritten) -> str:
    part = _part(reason.part)
    match reason.forward:
        case "right":
            return f"`forward` is right. You have not written {part} yet."
        case Reason() as fault:
            return f"you have not written {part} yet. {sentence(describe(fault))}"
    signature = f": {reason.signature}" if reason.signature else ""
    return f"you have not written {part} yet{signature}."


def _part(name: str) -> str:
    return "the function" if name == WHOLE else f"`{name}`"


def _also(constraints: str) -> str:
    return f" {sentence(constraints)}." if constraints else ""


def _tried_on(samples: tuple[str, ...]) -> str:
    return f" Tried on: {'; '.join(samples)}." if samples else ""


def _element(difference: Difference) -> str:
    """Return a sentence about the largest error, such as `` At [1, 0] it is 2, should be 3.``."""
    evidence = difference.evidence
    if "index" not in evidence:
        return ""
    index = f"At {evidence['index']} it" if evidence["index"] else "It"
    actual, expected = distinguish(evidence["actual"], evidence["expected"])
    return f" {index} is {actual}, should be {expected}."


# --------------------------------------------------------------------------------------------------
# The verdict
# --------------------------------------------------------------------------------------------------


_RAISES = ("forward-raises", "backward-raises")  # the rules for an answer that raised an error


@dataclass(frozen=True)
class Verdict:
    """The reason for a status, and the evidence.

    ``sample`` is the kind of input that shows the mistake. ``warnings`` are the doctor's warnings
    about an answer that passed. ``printed`` is the answer's output in one forward and one backward
    pass. ``remarks`` describes code that no answer needs, for the instructor. If the gradients of a
    wrong answer are correct, ``also`` contains the other rules that it breaks. Partial credit
    depends on these rules. ``search`` finds a change that corrects a wrong answer. It runs in the
    process that graded the answer.
    """

    reason: Reason
    sample: str = ""
    remarks: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    warnings: tuple[Finding, ...] = ()
    printed: str = ""
    search: Callable[[], Repair | None] | None = field(default=None, repr=False, compare=False)

    @property
    def status(self) -> Status:
        """The status, which depends on the type of the reason."""
        return self.reason.status

    @property
    def message(self) -> str:
        """The sentence that explains the status."""
        return describe(self.reason)

    @property
    def finding(self) -> Finding | None:
        """The finding of ``diagnose``, if a rule describes the mistake."""
        return self.reason.finding if isinstance(self.reason, RuleBroken) else None

    @property
    def raised(self) -> bool:
        """Whether the answer's own code raised an exception."""
        rule = self.finding.rule if self.finding else ""
        return isinstance(self.reason, CodeRaised) or rule in _RAISES


def wrong(text: str) -> Verdict:
    """Return a trial's verdict on a wrong answer."""
    return Verdict(WrongBecause(text))


def unfinished(text: str) -> Verdict:
    """Return a trial's verdict on an unwritten answer."""
    return Verdict(NotAttemptedBecause(text))


def failed(text: str) -> Verdict:
    """Return the verdict for a trial that itself failed."""
    return Verdict(GraderFailedBecause(text))


def fault(finding: Finding | None) -> Verdict | None:
    """Convert a finding to a verdict. Return ``None`` if there is no finding."""
    return None if finding is None else Verdict(RuleBroken(finding))
