"""What pattern a matrix has, decided by its numbers: looks diagonal, looks of low rank."""

import torch
from torch import Tensor

_NEGLIGIBLE = 1e-6  # of the largest entry: counts as zero, and equal if no farther apart
_FEW = 24  # parts that are still told as blocks


def looks(matrix: Tensor) -> str:
    """Name the pattern in a few words, as in ``block diagonal (3 blocks of 4 × 4), symmetric``.

    It is what the numbers at this point look like, within one millionth of the largest entry: a
    matrix may be diagonal here by chance. ``""`` for a single row or column, and where an entry is
    not a finite number.
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
    words = [kind, *_further(matrix, largest)]
    return ", ".join(words)


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
    """Say into what parts the matrix falls: no input of one reaches an output of another."""
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
    """Return the rows and columns that hang together, in the order of their first rows."""
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
