"""A pytest plugin that runs all tests once, and then runs the relevant tests on each mutant.

A rule depends only on the evidence. So before the plugin runs a test on a mutant of a rule, it
calls the rule again with the evidence that the test had collected. If the answer is the same, the
test would have the same result, so the plugin does not run it.
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

SECONDS = 60  # CPU seconds for one mutant; longer means an endless loop, which counts as noticed
KILLED, SURVIVED = 1, 0


@dataclass
class Answer:
    """A rule's answer to some evidence, and the functions that it reached."""

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
    """The results of the tests on the unchanged code."""

    watched: set[CodeType]
    reached: dict[CodeType, list[pytest.Item]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[pytest.Item, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    beyond: set[tuple[pytest.Item, CodeType]] = field(default_factory=set)  # reached without a rule
    seconds: dict[pytest.Item, float] = field(default_factory=dict)

    def run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Run a test and record what it reaches. Leave it out if it fails under a profiler."""
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
        """Whether any of the tests that reach one of these functions now fails."""
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
        """Run a test together with the tests that share its set-up. Return whether any fails."""
        same = [other for other in self.seconds if _shared(other) == _shared(item)]
        following = [*same[1:], None]
        return any(_failed(one, next_) for one, next_ in zip(same, following, strict=True))


def _failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test with everything that pytest does around it, such as its warning filters."""
    before = item.session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return item.session.testsfailed > before


def _share(answers: list[Answer]) -> None:
    """Give all value rules the same reached functions, because the first one computes for all."""
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
    """Run all tests once, and then run the relevant tests on every mutant."""
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
    """Try all mutants of a module. Print those that survive, outdated entries, and the counts."""
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
    """Return the outcome of a mutant, which is tried in a separate process."""
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
    """Print nothing, not even a crash report, and end after a time limit."""
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _functions_of(path: Path) -> list[FunctionType]:
    """Return all functions of a module, including methods and functions hidden by decorators."""
    (home,) = (home for home in HOMES if path.is_relative_to(home))
    name = ".".join(path.relative_to(home.parent).with_suffix("").parts)
    import_module(name)
    # Check the type directly, because an object may warn or worse when it is asked for its class.
    functions = (thing for thing in gc.get_objects() if type(thing) is FunctionType)
    return [f for f in functions if f.__module__ == name and "<locals>" not in f.__qualname__]
