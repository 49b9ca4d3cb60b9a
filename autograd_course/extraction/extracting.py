"""Extract the answers to a lesson's exercises from a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from autograd_course.extraction.answer import Answer
from autograd_course.extraction.attempts import is_attempted
from autograd_course.extraction.cleaning import is_talk, without_talk
from autograd_course.extraction.finding import Place, place
from autograd_course.extraction.program import Block, Program, odd_letter, program
from autograd_course.extraction.slicing import preamble
from autograd_course.extraction.statements import Statement
from autograd_course.index import INDEX, Entry
from autograd_course.notebook_files import Notebook


def extract(notebook: Notebook, student: str, exercises: Iterable[Entry]) -> tuple[Answer, ...]:
    """Return a student's answer to each exercise. If an answer is missing, its source is empty.

    This function does not execute any code. It ignores grader cells, Markdown cells, outputs and
    magics. From the other code cells, it takes only the statements that an answer needs
    (:mod:`.slicing`).
    """
    read = program(notebook)
    return tuple(_answer(read, student, exercise.id) for exercise in exercises)


def attempted(notebook: Notebook, exercises: Iterable[Entry]) -> int:
    """Return how many of the exercises the student has begun in the notebook."""
    read = program(notebook)
    found = [place(read, exercise.id) for exercise in exercises]
    return sum(
        is_attempted(read.blocks[where.index].statements, where.name) for where in found if where
    )


def _answer(read: Program, student: str, exercise: str) -> Answer:
    where = place(read, exercise)
    if where is None:
        problems = _absent(read, exercise)
        return Answer(exercise, student, INDEX[exercise].answer, "", problems=problems)
    block = read.blocks[where.index]
    own, rest = _parted(block, where, exercise)
    above = [*_statements(read.blocks[: where.index]), *rest]
    before = preamble(own, above, _statements(read.blocks[where.index + 1 :]))
    source = _source(block, own, rest)
    problems = (*where.problems, *before.problems)
    return Answer(exercise, student, where.name, source, before.source, problems)


def _absent(read: Program, exercise: str) -> tuple[str, ...]:
    if exercise in read.prose:
        return (f"the cell {exercise!r} is not a code cell: change its type and hand it in again",)
    asked = INDEX[exercise].answer
    alike = next((name for b in read.blocks for name in b.binds if _looks_like(name, asked)), "")
    said = f"there is no cell with the id {exercise!r}, and none defines {asked}"
    return (f"{said}; what looks like it is no {asked}{odd_letter(alike)}" if alike else said,)


def _looks_like(name: str, asked: str) -> bool:
    """Return whether a name differs from ``asked`` only in letters from another alphabet."""
    if name.isascii() or len(name) != len(asked):
        return False
    return all(a == b or not b.isascii() for a, b in zip(asked, name, strict=True))


def _parted(
    block: Block, where: Place, exercise: str
) -> tuple[Sequence[Statement], Sequence[Statement]]:
    """Split a cell into the answer's own statements and all other statements.

    The function splits a cell only if the cell also answers other exercises. Otherwise, the whole
    cell is the answer, because any of its code may be part of the answer.
    """
    others = {each.answer for each in INDEX.values() if each.id != exercise} - {where.name}
    if not block.binds & others or block.exercise == exercise:
        return block.statements, ()
    own = [s for s in block.statements if where.name in s.binds | s.changes]
    return own, [s for s in block.statements if where.name not in s.binds | s.changes]


def _source(block: Block, own: Sequence[Statement], rest: Sequence[Statement]) -> str:
    if rest:
        return "\n".join(s.source for s in own if not is_talk(s))
    return without_talk(block.source, block.statements)


def _statements(blocks: Iterable[Block]) -> list[Statement]:
    return list(chain.from_iterable(block.statements for block in blocks))
