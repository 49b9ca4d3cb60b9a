"""What a step saw: one small record, and the five of them as a page of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

TITLES = ("forward", "contract", "magnitudes", "one element", "gradcheck")
WIDTH = 88
_INDENT = 18  # "  3 magnitudes  ✗ "
_MARK = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True)
class Step:
    """One step's answer: ``seen`` says what was seen, ``means`` what that means.

    ``ok`` is ``None`` where there was nothing to compare; ``seen`` then says why. ``stops`` marks a
    step after which no other can be taken: something raised.
    """

    title: str
    ok: bool | None
    seen: str
    means: str = ""
    stops: bool = False

    @property
    def number(self) -> int:
        """The step's place in the order of work, from 1."""
        return TITLES.index(self.title) + 1

    @property
    def mark(self) -> str:
        """✓, ✗, or – where there was nothing to compare."""
        return _MARK[self.ok]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self, *, explained: bool = True) -> Iterator[str]:
        """Yield the step as lines of text, wrapped; unless ``explained``, without its meaning."""
        head = f"  {self.number} {self.title:<12}{self.mark} "
        told = [*self.seen.replace("; ", ";\n").splitlines(), self.means if explained else ""]
        for text in told:
            yield from _wrapped(text, head)
            head = ""


@dataclass(frozen=True)
class Steps:
    """The five steps of one Function, in order; iterating yields each :class:`Step`."""

    subject: str
    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        """Whether no step broke."""
        return self.first_broken is None

    @property
    def first_broken(self) -> Step | None:
        """The first step that broke: the later ones follow from it, more often than not."""
        return next((step for step in self.steps if step.ok is False), None)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        broken = self.first_broken
        if broken is None:
            return f"✓ {self.subject} · no step fails"
        return f"✗ {self.subject} · step {broken.number} fails: {broken.title}"

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __str__(self) -> str:
        broken = self.first_broken
        lines = [self.headline]
        for step in self.steps:
            lines += step.lines(explained=step is broken)
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(text: str, head: str) -> list[str]:
    """Wrap a text behind a head, all its lines below the first one's beginning."""
    indent = " " * _INDENT
    lines = wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [head + line[_INDENT:] if head and k == 0 else line for k, line in enumerate(lines)]
