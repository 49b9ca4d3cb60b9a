"""Search for repairs of code that another tool judges or that another process runs.

``diagnose`` uses its own search: see :attr:`~autograd_doctor.finding.Finding.repair`.

The two searches import their modules when you call them. A process that only runs edited code with
:func:`run_edits` therefore imports no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autograd_doctor._execution.isolation import preserve_global_state
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._repair.elsewhere import Ask, Elsewhere, run_edits
from autograd_doctor._repair.runner import ByOutcome, Question
from autograd_doctor._repair.source import with_sources
from autograd_doctor.evidence import Evidence
from autograd_doctor.finding import Finding
from autograd_doctor.repair import Repair

__all__ = ["Question", "edited", "run_edits", "search_repair", "search_repair_elsewhere"]


def search_repair(
    code: Any,
    finding: Finding,
    is_right: Callable[[Any], bool],
    passes: Callable[[Any], Repair | None],
) -> Repair | None:
    """Search for an edit that makes the code pass your own test.

    Args:
        code: A Function class or a plain function. Its source must be known.
        finding: The finding to repair. For ``forward-mismatch``, the search tries all edits. For a
            rule about autograd's contract, it tries the changes that the rule's page recommends.
        is_right: A callable that returns whether edited code gives the correct result on some
            inputs. The search calls it for every edit, so it should be fast.
        passes: A callable that tests edited code on more inputs. It returns a repair that names the
            inputs on which the code is correct, or ``None`` if the code is wrong on one of them.

    Returns:
        The most likely repair, or ``None`` if none is found within one second of CPU time.
    """
    from autograd_doctor._repair.search import search
    from autograd_doctor._repair.verification import SECONDS

    with suppress(TimeUp), time_limit(SECONDS):
        return search(ByOutcome(code, is_right, passes), finding)
    return None


def search_repair_elsewhere(
    cells: Sequence[str],
    name: str,
    finding: Finding,
    evidence: Sequence[Evidence],
    ask: Ask,
    verified: Callable[[Mapping[str, str]], Repair | None],
    *,
    computes: tuple[Sequence[Any], Callable[[Any], bool]] | None = None,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    seed: int = 0,
    seconds: float = 0.6,
    known: Collection[Any] = (),
) -> Repair | None:
    """Search for a repair of a Function that runs in another process.

    This process edits the source and compares the results. The other process runs the edited code
    with :func:`run_edits`.

    Args:
        cells: The source of the module, as notebook cells. Python names them ``<cell 1>`` and so
            on.
        name: The name of the class.
        finding: The finding to repair.
        evidence: The evidence that the other process sent about the unchanged Function.
        ask: A callable that sends edits and a question to the other process, and returns the
            answers.
        verified: A callable that tests the class with edited methods. It takes a dictionary that
            maps method names to source code. It returns a repair that names the inputs on which the
            class is correct, or ``None``.
        computes: For ``forward-mismatch``: the inputs of a call, and a function that checks the
            outputs.
        reference: As for :func:`~autograd_doctor.diagnose`.
        surrogate: As for :func:`~autograd_doctor.diagnose`.
        seed: The seed with which the evidence was collected.
        seconds: The time limit of the search in seconds.
        known: The ``signatures`` of earlier repairs to the same exercise. The search tries these
            edits first.

    Returns:
        The most likely repair, or ``None`` if none is found in time.
    """
    from autograd_doctor._reference import establish
    from autograd_doctor._repair.search import search

    with preserve_global_state(seed):
        seen = [establish(each, reference, surrogate, seed) for each in evidence]
    runner = Elsewhere(cells, name, seen, ask, verified, computes)
    return search(runner, finding, seconds, known)


def edited(function: Any, sources: Mapping[str, str]) -> Any:
    """Return a subclass whose methods have the given source.

    If no method changes, return the Function itself.

    Args:
        function: A Function.
        sources: A mapping from the name of each edited method to the source of its ``def``.

    Returns:
        The subclass. The Function itself and its file do not change.
    """
    return (with_sources(function, sources) or function) if sources else function
