"""A judge with its own sandbox. Each worker uses a single judge for all its answers."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import torch

from autograd_classroom.grading.executor import Judge, Opening, RefusedError
from autograd_classroom.grading.task import Task, told
from autograd_classroom.grading.version import grader_version
from autograd_classroom.judge import judged
from autograd_classroom.judge.repairing import Budget
from autograd_classroom.sandbox import NoSandboxError, choose
from autograd_classroom.sandbox.backend import Backend, SandboxError
from autograd_classroom.sandbox.running import Sandbox
from autograd_classroom.sandbox.template import Template, Twin
from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.verdict import NotAttemptedBecause, Verdict


@dataclass(frozen=True)
class SandboxedJudge:
    """An :data:`Opening` that provides a judge. The judge runs all its tasks in the same sandbox.

    Raises RefusedError if this machine has no sandbox, or if the sandbox does not start.
    ``running`` is a fork of a sandbox template that is already running, and ``backend`` is its
    sandbox.
    """

    trust: bool = False
    backend: Backend | None = None
    running: Twin | None = None

    @contextmanager
    def __call__(self) -> Iterator[Judge]:
        """Yield a judge, and keep its sandbox open during the ``with`` block."""
        torch.set_num_threads(1)  # one thread, because the workers together use all cores
        try:
            backend = self.backend or choose(trust=self.trust)
            sandbox = Sandbox(backend, running=self.running).start()
        except (NoSandboxError, SandboxError) as error:
            raise RefusedError(str(error)) from None
        with sandbox:
            yield functools.partial(_said, sandbox, Budget())

    @contextmanager
    def share(self, template: Template) -> Iterator[Opening]:
        """Fork a sandbox template for one worker. Keep the fork until the worker has started."""
        try:
            twin = template.twin()
        except SandboxError:  # the worker then starts its own template or reports why it cannot
            yield self
            return
        with closing(twin):
            yield replace(self, backend=template.backend, running=twin)


def _said(sandbox: Sandbox, budget: Budget, text: str) -> str:
    task = Task.from_json(text)
    if task.grader != grader_version():
        raise RefusedError(
            f"a worker has the course in version {grader_version()}, the one who asks has "
            f"{task.grader}: install the same everywhere."
        )
    begun, before = time.perf_counter(), budget.left
    verdict = verdict_on(task.answer, sandbox, task.seed, budget)
    seconds = time.perf_counter() - begun
    budget.earn(seconds - (before - budget.left))
    return told(verdict, seconds)


def verdict_on(
    answer: Answer, sandbox: Sandbox, seed: int, budget: Budget | None = None
) -> Verdict:
    """Judge an answer. A missing answer counts as not attempted."""
    if not answer.found:
        return Verdict(NotAttemptedBecause(f"no {answer.name} was handed in."))
    return judged(CATALOGUE[answer.exercise], answer, sandbox, seed, budget)
