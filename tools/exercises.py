"""Convert the source of a solved notebook to an exercise notebook for learners."""

from __future__ import annotations

import ast

from tools.errors import AuthoringError
from tools.percent import Cell, Source
from tools.regions import cut, find_regions, refuse_markers

SOLUTION_ONLY = "solution-only"


def exercise_cells(solution: Source) -> tuple[Cell, ...]:
    """Return the cells of the exercise notebook that belongs to a solved notebook.

    Replace solution regions with stubs, and remove cells with the tag ``solution-only``. Raises
    AuthoringError if the exercise would still contain a solution, or if a cell would be invalid
    Python.
    """
    kept = [cell for cell in solution.cells if SOLUTION_ONLY not in cell.tags]
    stubbed = tuple(_stubbed(cell, solution) for cell in kept)
    _refuse_survivors(kept, stubbed, solution)
    return stubbed


def _stubbed(cell: Cell, solution: Source) -> Cell:
    if not cell.is_code:
        refuse_markers(cell.source, solution.path, cell.line)
        return cell
    has_region = bool(find_regions(cell.source, solution.path, cell.line))
    if has_region != _is_answer(cell):
        problem = (
            "a solution region in a cell that is no answer cell"
            if has_region
            else "an answer cell without a solution region would be published solved"
        )
        repair = "let the markers and the cell's nbgrader 'solution' agree"
        raise AuthoringError(solution.path, cell.line, problem, repair)
    stub = cut(cell.source, solution.path, cell.line)
    _refuse_broken(stub, cell, solution)
    return cell.with_source(stub)


def _is_answer(cell: Cell) -> bool:
    return bool((cell.nbgrader or {}).get("solution"))


def _refuse_broken(stub: str, cell: Cell, solution: Source) -> None:
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise AuthoringError(
            solution.path,
            cell.line,
            f"without its solution this cell does not parse ({error.msg})",
            "put the markers around whole statements",
        ) from None


def _refuse_survivors(kept: list[Cell], stubbed: tuple[Cell, ...], solution: Source) -> None:
    """Raise an error if the exercise contains a copy of a solution with at least three lines.

    The given code is allowed to contain shorter solutions, because a line such as ``return
    grad_output`` gives nothing away.
    """
    published = "\n".join(_essence(cell.source) for cell in stubbed)
    for cell in kept:
        lines = cell.source.splitlines()
        regions = find_regions(cell.source, solution.path, cell.line) if cell.is_code else []
        for region in regions:
            body = _essence("\n".join(lines[region.begin + 1 : region.end]))
            if body.count("\n") >= 2 and body in published:
                raise AuthoringError(
                    solution.path,
                    cell.line + region.begin,
                    "this solution's text also occurs outside its region",
                    "remove the other copy, or tag its cell 'solution-only'",
                )


def _essence(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
