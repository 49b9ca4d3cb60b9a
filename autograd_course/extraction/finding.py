"""Find the notebook cell that answers an exercise. The first match in this list counts:

1. A cell that has the exercise's ``grade_id``, defines the answer and contains more than the stub.
   If there are several such cells, the last one counts, because it overwrote the others in the
   student's kernel.
2. Any cell that defines the answer, because an id can get lost or move to another cell.
3. A cell that has the exercise's ``grade_id``, even if it is a stub or defines something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograd_course.extraction.attempts import is_attempted
from autograd_course.extraction.program import Program
from autograd_course.index import INDEX, shares_its_answer


@dataclass(frozen=True)
class Place:
    """The index of the answer's cell, the answer's name, and any problems."""

    index: int
    name: str
    problems: tuple[str, ...] = ()


def place(program: Program, exercise: str) -> Place | None:
    """Return the location of an answer in the notebook, or ``None`` if there is no answer."""
    name = _name(program, exercise)
    tagged = [i for i, block in enumerate(program.blocks) if block.exercise == exercise]
    if begun := [i for i in tagged if _begun(program, i, name)]:
        return Place(begun[-1], name, (*_renamed(exercise, name), *_several(tagged, begun)))
    # The verdict says why Python cannot read such a cell.
    if broken := [i for i in tagged if program.blocks[i].error] or _unreadable(program, name):
        return Place(broken[-1], name)
    if (elsewhere := _elsewhere(program, exercise, name)) is not None:
        return Place(
            elsewhere, name, (*_renamed(exercise, name), _lost(program, elsewhere, exercise))
        )
    filled = [i for i in tagged if program.blocks[i].source.strip()]
    return Place(filled[-1], name, _no_name(program, filled[-1], name)) if filled else None


def _name(program: Program, exercise: str) -> str:
    """Return the requested name, or the name passed to ``grade`` if only that name is defined."""
    asked = INDEX[exercise].answer
    bound = frozenset().union(*(block.binds for block in program.blocks))
    _, handed = program.graded.get(exercise, (0, asked))
    return handed if asked not in bound and handed in bound else asked


def _begun(program: Program, index: int, name: str) -> bool:
    return is_attempted(program.blocks[index].statements, name)


def _unreadable(program: Program, name: str) -> list[int]:
    """Return the cells that have no id and are not valid Python, but seem to define the name."""
    defines = re.compile(rf"^(class|def) {re.escape(name)}\b", re.MULTILINE)
    return [
        index
        for index, block in enumerate(program.blocks)
        if block.error and not block.exercise and defines.search(block.source)
    ]


def _elsewhere(program: Program, exercise: str, name: str) -> int | None:
    """Return the last cell that defines the name, preferably one without an exercise id.

    If several exercises use the same name, the function considers only the cell directly above the
    exercise's ``grade(…)`` call.
    """
    end = len(program.blocks)
    untagged = {i for i in range(end) if not program.blocks[i].exercise}
    if shares_its_answer(exercise):
        end = program.graded.get(exercise, (0, ""))[0]
        return next((i for i in [end - 1] if i in untagged and _begun(program, i, name)), None)
    begun = [i for i in range(end) if _begun(program, i, name)]
    return max((i for i in begun if i in untagged), default=max(begun, default=None))


def _lost(program: Program, index: int, exercise: str) -> str:
    """Explain why the answer was not in the cell with the exercise's id."""
    if misnamed := program.blocks[index].misnamed:
        return f"{misnamed}; the cell is taken for {exercise!r}"
    name = _name(program, exercise)
    problem = f"the cell with the id {exercise!r} is missing or empty; {name} was found"
    return f"{problem} in another cell"


def _renamed(exercise: str, name: str) -> tuple[str, ...]:
    asked = INDEX[exercise].answer
    return () if name == asked else (f"{asked} is asked for; {name}, handed to grade, is taken",)


def _several(tagged: list[int], begun: list[int]) -> tuple[str, ...]:
    if len(tagged) < 2:
        return ()
    which = "the last" if begun[-1] == tagged[-1] else "the last that is not empty"
    return (f"{len(tagged)} cells have the same id; {which} is graded",)


def _no_name(program: Program, index: int, name: str) -> tuple[str, ...]:
    return () if name in program.blocks[index].binds else (f"the cell does not define {name}",)
