"""A plugin of pytest: it runs the tests once, then on each mutant those that come by the change.

A rule is a function of the evidence alone. So before a test is run on a mutant of a rule, the rule
is asked again on the evidence that the test had collected: where it answers as before, the test
does what it did, and is not run.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
import torch
from autograd_doctor._rules.rule import Rule
from autograd_doctor._rules.values import _EXPLAINED

from mutants.changes import HOMES, KEPT, Mutant, kept, mutants_of, put_in

SECONDS = 60  # of a processor, for one mutant: longer is a loop without end, and noticed
KILLED, SURVIVED = 1, 0


@dataclass
class Answer:
    """What a rule said to evidence, by way of which functions."""

    rule: Rule
    evidence: Any
    said: str
    reached: set[CodeType] = field(default_factory=set)

    def differs(self) -> bool:
        try:
            return repr(self.rule(self.evidence)) != self.said
        except Exception:
            return True


@dataclass
class Known:
    """What the tests did on the code as it is."""

    watched: set[CodeType]
    reached: dict[CodeType, list[pytest.Item]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[pytest.Item, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    beyond: set[tuple[pytest.Item, CodeType]] = field(default_factory=set)  # reached by no rule
    seconds: dict[pytest.Item, float] = field(default_factory=dict)

    def run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Run a test and note what it comes by; one that fails under a profiler is of no use."""
        began, asked = time.process_time(), Rule.__call__
        outside: set[CodeType] = set()
        into = [outside]

        def called(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code in self.watched:
                into[-1].add(frame.f_code)

        def answering(rule: Rule, evidence: Any) -> Any:
            answer = Answer(rule, evidence, "")
            into.append(answer.reached)
            said = asked(rule, evidence)
            into.pop()
            answer.said = repr(said)
            self.answers[item].append(answer)
            return said

        Rule.__call__ = answering
        sys.setprofile(called)
        failed = _failed(item, following)
        sys.setprofile(None)
        Rule.__call__ = asked
        if failed:
            print(f"left out, since it fails without any change: {item.nodeid}")
            return
        self.seconds[item] = time.process_time() - began
        self.beyond |= {(item, code) for code in outside}
        _share(self.answers[item])
        for code in outside.union(*(answer.reached for answer in self.answers[item])):
            self.reached[code].append(item)

    def notices(self, codes: set[CodeType]) -> bool:
        """Whether a test fails now, of those that came by one of these functions."""
        coming = {item for code in codes for item in self.reached[code]}
        for item in sorted(coming, key=self.seconds.__getitem__):
            if self._may_differ(item, codes) and self._fails(item):
                return True
        return False

    def _may_differ(self, item: pytest.Item, codes: set[CodeType]) -> bool:
        if any((item, code) in self.beyond for code in codes):
            return True
        return any(answer.differs() for answer in self.answers[item] if codes & answer.reached)

    def _fails(self, item: pytest.Item) -> bool:
        """Run a test, and those that share what it has set up."""
        same = [other for other in self.seconds if _shared(other) == _shared(item)]
        following = [*same[1:], None]
        return any(_failed(one, next_) for one, next_ in zip(same, following, strict=True))


def _failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test with all that pytest does around it, its filters of warnings for one."""
    before = item.session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return item.session.testsfailed > before


def _share(answers: list[Answer]) -> None:
    """Let the rules of value, for which the first that asks works all out, reach the same."""
    of_value = [answer for answer in answers if answer.rule.family == "values"]
    for answer in of_value:
        others = (other.reached for other in of_value if other.evidence is answer.evidence)
        answer.reached = set().union(*others)


def _shared(item: pytest.Item) -> Any:
    spec = getattr(item, "callspec", None)
    by_module = spec and "module" in {scope.value for scope in spec._arg2scope.values()}
    return (item.path, spec.id) if by_module else item


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutate", nargs="*", default=[], help="the modules to change")


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run all tests once, then those that matter on every mutant."""
    torch.set_num_threads(1)
    gc.unfreeze()
    paths = [Path(path) for path in session.config.option.mutate]
    there = {path: _functions_of(path) for path in paths}
    known = Known({f.__code__ for functions in there.values() for f in functions})
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        known.run(item, following)
    print(f"\n{len(known.seconds)} tests, {sum(known.seconds.values()):.0f} s", flush=True)
    gc.freeze()
    survived = sum(_tried(path, there[path], known) for path in paths)
    session.testsfailed = survived
    return True


def _tried(path: Path, functions: list[FunctionType], known: Known) -> int:
    """Try all mutants of a module; print what survives, what is kept in vain, and how many."""
    count: Counter[str] = Counter()
    began = time.monotonic()
    accepted = {change for change in kept() if change[0] == str(path)}
    outdated = set(accepted)
    for mutant in mutants_of(path):
        if mutant.change in accepted:
            outdated.discard(mutant.change)
            count["kept"] += 1
            continue
        result = _outcome(mutant, functions, known)
        count[result] += 1
        if result != "killed":
            print(f"{result}: {mutant}", flush=True)
    for _, old, new in outdated:
        count["outdated"] += 1
        print(f"outdated in {KEPT.name}: {path}\n    - {old}\n    + {new}", flush=True)
    told = ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
    print(f"= {path}: {told} ({time.monotonic() - began:.0f} s)", flush=True)
    return count["survived"] + count["unreached"] + count["outdated"]


def _outcome(mutant: Mutant, functions: list[FunctionType], known: Known) -> str:
    """Say what becomes of a mutant, in a process of its own."""
    mine = [f for f in functions if f.__qualname__ == mutant.function]
    codes = {f.__code__ for f in mine}
    if not any(known.reached[code] for code in codes):
        return "unreached"
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        return "survived" if status == SURVIVED else "killed"
    _alone()
    _EXPLAINED.clear()
    try:
        noticed = put_in(mutant, mine) and known.notices(codes)
    except BaseException:
        noticed = True
    os._exit(KILLED if noticed else SURVIVED)


def _alone() -> None:
    """Say nothing, not of a crash either, and end after a time."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _functions_of(path: Path) -> list[FunctionType]:
    """Return all functions of a module, those too that decorators have hidden or methods are."""
    (home,) = (home for home in HOMES if path.is_relative_to(home))
    name = ".".join(path.relative_to(home.parent).with_suffix("").parts)
    import_module(name)
    # By type: other people's objects may warn, or do worse, when they are asked for their class.
    functions = (thing for thing in gc.get_objects() if type(thing) is FunctionType)
    return [f for f in functions if f.__module__ == name and "<locals>" not in f.__qualname__]
