"""Describe a Jacobian in words: the number of wrong entries, and the pattern of each matrix."""

import torch
from autograd_doctor import Diagnosis
from autograd_doctor import jacobians as heatmap
from autograd_doctor.formatting import sentence
from autograd_doctor.jacobians import Matrix
from torch import Tensor

from autograd_course.visualize.jacobian.trace import AGREES, UNKNOWN, WRONG

_NEGLIGIBLE = 1e-6  # relative to the largest entry; smaller entries and differences count as 0
_FEW = 24  # if there are more independent parts than this, they are not described as blocks


WORDS = {
    AGREES: "they agree",
    WRONG: "✗ backward is wrong here",
    UNKNOWN: "finite differences find no derivative here",
}


HOW = (
    "Finite differences compute one column at a time: they change one input element slightly. "
    "Backward computes one row at a time: each call gets a grad_output that is 1 at one output "
    "element and 0 elsewhere."
)
HOW_DECLARED = (
    "Both Jacobians are computed one row at a time. Each call of backward gets a grad_output that "
    "is 1 at one output element and 0 elsewhere. The backward of the reference is autograd's own."
)


def describe_finding(diagnosis: Diagnosis | None) -> str:
    """Return the rule and the message of the first finding in a diagnosis, or ``""``."""
    if diagnosis is None or not diagnosis.findings:
        return ""
    first = diagnosis.findings[0]
    severity = "" if first.severity == "error" else f"{first.severity}, "
    return f"{severity}{first.rule}: {sentence(first.message)}"


def verdict(truth: str, entries: int, wrong: int, known: bool, blind: bool) -> str:
    """Say how many entries are wrong.

    ``known`` is true if any entry has a derivative. ``blind`` is true if any entry has none.
    """
    if not known:
        return "There is nothing to compare, because no entry has a derivative."
    if wrong:
        return f"✗ {wrong} of {entries} entries of backward are wrong."
    each = f"all {entries} entries" if entries > 1 else "its only entry"
    where = " where finite differences find a derivative" if blind else ""
    return f"✓ Backward agrees with {truth} in {each}{where}."


def scale(height: int, width: int) -> str:
    """Explain that a cell shows several entries."""
    return (
        f"Each cell shows the largest of {height} × {width} entries. "
        "It is marked as wrong if any of them is wrong."
    )


def filling(matrix: Matrix) -> str:
    """Describe a map's entries: the number of nonzero entries, their size, and their pattern."""
    pattern = looks(torch.tensor(matrix, dtype=torch.float64))
    filled = heatmap.filling(matrix)
    known = pattern in ("", "zero", "sparse") or (pattern == "diagonal" and "diagonal" in filled)
    return filled if known else f"{filled}; looks {pattern}"


def looks(matrix: Tensor) -> str:
    """Name the pattern in a few words, such as ``block diagonal (3 blocks of 4 × 4), symmetric``.

    The Jacobian is computed at a single point, so a matrix may be diagonal by chance. Entries below
    one millionth of the largest entry are ignored. The result is ``""`` for a single row or column,
    and for a matrix that contains a non-finite entry.
    """
    if min(matrix.shape) < 2 or not bool(matrix.isfinite().all()):
        return ""
    largest = float(matrix.abs().max())
    if largest == 0:
        return "zero"
    filled = matrix.abs() > _NEGLIGIBLE * largest
    if simple := _diagonal(matrix, filled, largest):
        return simple
    kind = _blocks(filled) or _triangle(filled) or ("dense" if bool(filled.all()) else "sparse")
    return ", ".join([kind, *_further(matrix, largest)])


def _diagonal(matrix: Tensor, filled: Tensor, largest: float) -> str:
    square = matrix.shape[0] == matrix.shape[1]
    if not square or bool(filled[~torch.eye(len(matrix), dtype=torch.bool)].any()):
        return ""
    diagonal = matrix.diagonal()
    if float(diagonal.max() - diagonal.min()) > _NEGLIGIBLE * largest:
        return "diagonal"
    if abs(float(diagonal[0]) - 1) <= _NEGLIGIBLE:
        return "the identity"
    return "a multiple of the identity"


def _triangle(filled: Tensor) -> str:
    if filled.shape[0] != filled.shape[1]:
        return ""
    lower, upper = not bool(filled.triu(1).any()), not bool(filled.tril(-1).any())
    return "lower triangular" if lower else "upper triangular" if upper else ""


def _blocks(filled: Tensor) -> str:
    """Describe the independent parts. No input in one part affects an output in another part."""
    parts = _parts(filled)
    if len(parts) < 2:
        return ""
    sizes = {(len(rows), len(columns)) for rows, columns in parts}
    runs = all(_is_run(places) for part in parts for places in part)
    if len(sizes) > 1 or len(parts) > max(_FEW, min(filled.shape)):
        return f"{len(parts)} independent parts"
    ((height, width),) = sizes
    if (height, width) == (1, 1):
        return "a permuted diagonal"
    ordered = [columns[0] for _, columns in parts]
    diagonal = runs and ordered == sorted(ordered)
    name = "block diagonal" if diagonal else "independent parts"
    return f"{name} ({len(parts)} blocks of {height} × {width})"


def _is_run(places: list[int]) -> bool:
    return places == list(range(places[0], places[0] + len(places)))


def _parts(filled: Tensor) -> list[tuple[list[int], list[int]]]:
    """Return the rows and columns of each connected part, ordered by the part's first row."""
    reach = filled.double()
    left, parts = set(range(len(filled))), []
    for first in range(len(filled)):
        if first not in left or not bool(filled[first].any()):
            continue
        rows = torch.zeros(len(filled), dtype=torch.bool)
        rows[first] = True
        while True:
            columns = reach.T @ rows.double() > 0
            more = reach @ columns.double() > 0
            if torch.equal(more, rows):
                break
            rows = more
        parts.append((rows.nonzero().flatten().tolist(), columns.nonzero().flatten().tolist()))
        left -= set(parts[-1][0])
    return parts


def _further(matrix: Tensor, largest: float) -> list[str]:
    words, square = [], matrix.shape[0] == matrix.shape[1]
    if square and float((matrix - matrix.T).abs().max()) <= _NEGLIGIBLE * largest:
        words.append("symmetric")
    rank = int((torch.linalg.svdvals(matrix) > 1e-6 * largest).sum())
    if rank < min(matrix.shape):
        words.append(f"of rank {rank}")
    return words
