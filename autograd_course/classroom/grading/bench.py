"""In a worker: a sandbox of its own, and one piece of code after the other judged with it."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.grading.crew import Judge, Opening, RefusedError, Share
from autograd_course.classroom.grading.task import Task, told
from autograd_course.classroom.grading.version import grader_version
from autograd_course.classroom.judging import judged
from autograd_course.classroom.sandbox import NoSandboxError, choose
from autograd_course.classroom.sandbox.backend import SandboxError
from autograd_course.classroom.sandbox.running import Sandbox
from autograd_course.classroom.sandbox.template import Template, Twin
from autograd_course.grader.exercises import CATALOGUE
from autograd_course.grader.verdict import Verdict, failed, unfinished

# What a worker needs, the second because autograd imports it when it is first given a grad_output.
_NEEDED = [__name__, "torch.fx.experimental.symbolic_shapes"]


@dataclass(frozen=True)
class Bench:
    """An :data:`Opening`: lends a judge with a sandbox that is used again for all its tasks.

    Raises RefusedError where this machine has no sandbox, or where it does not start. ``running``
    is one that has been started for it.
    """

    trust: bool = False
    running: Twin | None = None

    @contextmanager
    def __call__(self) -> Iterator[Judge]:
        """Open the sandbox for the time of a block."""
        torch.set_num_threads(1)  # a worker is one of many: together they fill the machine
        try:
            sandbox = Sandbox(choose(trust=self.trust), running=self.running).start()
        except (NoSandboxError, SandboxError) as error:
            raise RefusedError(str(error)) from None
        with sandbox:
            yield functools.partial(_said, sandbox)

    @contextmanager
    def shared(self) -> Iterator[Share]:
        """Start one sandbox and one Python for all workers of a :data:`Sharing` pool.

        Each gets a fork of them, where that keeps submissions apart.
        """
        multiprocessing.set_forkserver_preload(_NEEDED)
        backend = choose(trust=self.trust)
        if not backend.separates:
            yield lambda: nullcontext(self)
            return
        with closing(Template(backend)) as template:
            yield functools.partial(self._share, template)

    @contextmanager
    def _share(self, template: Template) -> Iterator[Opening]:
        try:
            twin = template.twin()
        except SandboxError:  # a worker's own may start, or it will say why not
            yield self
            return
        with closing(twin):
            yield replace(self, running=twin)


def _said(sandbox: Sandbox, text: str) -> str:
    task = Task.from_json(text)
    if task.grader != grader_version():
        raise RefusedError(
            f"a worker has the course in version {grader_version()}, the one who asks has "
            f"{task.grader}: install the same everywhere."
        )
    begun = time.perf_counter()
    verdict = verdict_on(task.answer, sandbox, task.seed)
    return told(verdict, time.perf_counter() - begun)


def verdict_on(answer: Answer, sandbox: Sandbox, seed: int) -> Verdict:
    """Return the verdict on an answer, the second one where the grader failed at first."""
    verdict = _verdict(answer, sandbox, seed)
    if verdict.status == "grader failed":  # a sandbox that was lost is no answer's fault
        verdict = _verdict(answer, sandbox, seed)
    return verdict


def _verdict(answer: Answer, sandbox: Sandbox, seed: int) -> Verdict:
    if not answer.found:
        return unfinished(f"no {answer.name} was handed in.")
    exercise: Any = CATALOGUE[answer.exercise]
    try:
        return judged(exercise, answer, sandbox, seed)
    except Exception as error:
        return failed(f"{type(error).__name__} inside the grader: {error}")
