"""The result of ``diagnose``: the findings, with the most likely cause first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autograd_doctor.errors import WrongGradientError
from autograd_doctor.finding import Finding

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from autograd_doctor.jacobians import Jacobians
    from autograd_doctor.repair import Repair
    from autograd_doctor.steps import Steps


@dataclass(frozen=True)
class Diagnosis:
    """The result of examining one Function.

    ``subject`` is the name of the Function. ``findings`` starts with the most likely cause. The
    sentences in ``examined`` describe what ``diagnose`` checked, and the sentences in
    ``unexamined`` describe what it could not check. ``print`` shows a plain-text report, a notebook
    shows HTML, and rich shows the same text in color. ``jacobians`` contains the Jacobians of
    ``forward`` and ``backward``. The HTML report draws them if values are wrong. ``limits`` holds
    the sentences in ``examined`` that describe the limits of the examination, such as restricted
    inputs or skipped probes. At ``level`` ``"standard"``, the report lists findings of severity
    ``"info"`` in one line. ``print(diagnosis.steps)`` explains the same example in the five steps
    of :func:`~autograd_doctor.steps.five_steps`.
    """

    subject: str
    findings: tuple[Finding, ...]
    examined: tuple[str, ...] = ()
    unexamined: tuple[str, ...] = ()
    jacobians: Jacobians | None = None
    steps: Steps | None = None
    limits: tuple[str, ...] = ()
    level: str = "standard"

    @property
    def ok(self) -> bool | None:
        """``True`` if ``diagnose`` examined all gradients and no finding is an error.

        ``False`` if a finding is an error. ``None`` if no finding is an error but ``diagnose``
        could not examine all gradients.
        """
        if any(finding.severity == "error" for finding in self.findings):
            return False
        return None if self.unexamined else True

    @property
    def repair(self) -> Repair | None:
        """The :attr:`~autograd_doctor.finding.Finding.repair` of the first finding that has a
        repair.
        """
        return next((f.repair for f in self.findings if f.repair), None)

    def patch(self) -> str:
        """Return the repair as a unified diff of the file, or ``""`` if there is no repair."""
        return self.repair.patch() if self.repair else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as a JSON-compatible dictionary."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "examined": list(self.examined),
            "unexamined": list(self.unexamined),
        }

    def passes(self, *, warnings: bool = False) -> bool:
        """Return whether :attr:`ok` is true.

        If ``warnings`` is set, a warning also counts as a failure.
        """
        warned = any(finding.severity == "warning" for finding in self.findings)
        return self.ok is True and not (warnings and warned)

    def raise_if_wrong(self, *, warnings: bool = False) -> None:
        """Raise :class:`WrongGradientError` with the report unless :meth:`passes` is true."""
        __tracebackhide__ = True  # pytest shows the caller's line
        if self.passes(warnings=warnings):
            return
        wrong = WrongGradientError(self)
        if self.ok is None:
            wrong.add_note("Nothing wrong was found, but the gradients were not all examined.")
        elif self.ok:
            wrong.add_note("With warnings=True, a warning also fails.")
        raise wrong

    def __str__(self) -> str:
        from autograd_doctor._report.report import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from autograd_doctor._report.report import as_html

        return as_html(self)

    def _ipython_display_(self) -> None:
        """Show the verdict immediately. Add the clue and the repair as soon as they are found."""
        from IPython import display

        from autograd_doctor._report.report import repair_card

        if not any(finding.search for finding in self.findings):
            raise NotImplementedError  # so that IPython displays it like any other object
        bare = (replace(finding, search=None, trace=None) for finding in self.findings)
        verdict = replace(self, findings=tuple(bare))
        show: Any = display.display
        show({"text/plain": str(verdict), "text/html": verdict._repr_html_()}, raw=True)
        if self.repair or any(finding.clue for finding in self.findings):
            show(repair_card(self), raw=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        from autograd_doctor._report.report import as_rich

        colored = options.is_terminal and not console.no_color
        yield as_rich(self, options.max_width) if colored else Text(str(self))
