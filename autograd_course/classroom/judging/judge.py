"""The verdict on one answer to one exercise, from behind the wall to the gradebook."""

from __future__ import annotations

from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.judging.absent import (
    Absent,
    BrokenError,
    StoppedError,
    UnansweredError,
)
from autograd_course.classroom.sandbox.backend import SandboxError
from autograd_course.classroom.sandbox.running import Child, Sandbox
from autograd_course.doctor import DoctorError
from autograd_course.doctor.running.calls import first_line
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judge import quiet_world
from autograd_course.grader.judging.limits import seconds_for
from autograd_course.grader.judging.order import Order
from autograd_course.grader.verdict import Verdict, failed, unfinished, wrong


def judged(exercise: FunctionExercise, answer: Answer, sandbox: Sandbox, seed: int) -> Verdict:
    """Return the verdict on an answer, run in a sandbox on inputs drawn from a secret seed.

    The verdict is that of ``grade``, by the same rules. An answer that does not come, or is none,
    is wrong, with the reason; a fault of ours is "grader failed".
    """
    try:
        with sandbox.child() as child, quiet_world():
            return _examined(exercise, answer, child, seed)
    except UnansweredError as reason:
        return wrong(str(reason))
    except StoppedError as where:
        return _stopped(exercise, str(where))
    except DoctorError as error:
        return failed(f"the doctor could not examine this answer: {first_line(error)}")
    except (SandboxError, BrokenError) as error:
        return failed(first_line(error))
    except Exception as error:
        return failed(f"{type(error).__name__} inside the grader: {first_line(error)}")


def _examined(exercise: FunctionExercise, answer: Answer, child: Child, seed: int) -> Verdict:
    absent = Absent(exercise, child, seed)
    begin = {"exercise": exercise.id, "cells": answer.cells, "name": answer.name}
    said = absent.ask(begin).said
    if (problem := said.get("problem")) is not None:
        text = str(problem)[:2000]
        return unfinished(text) if said.get("status") == "not attempted" else wrong(text)
    return Order(exercise, absent, exercise.samples(seed), timed=False).verdict()


def _stopped(exercise: FunctionExercise, where: str) -> Verdict:
    seconds = f"{seconds_for(exercise):g} s"
    if not where:
        return failed(f"grading took longer than {seconds}.")
    return wrong(f"stopped after {seconds} in your code{where}: does a loop there never end?")
