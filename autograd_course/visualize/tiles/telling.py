"""One step of a story as plain text: all that its picture shows."""

from collections.abc import Iterator, Sequence
from typing import Any

from autograd_course.visualize.tiles.story import Story, at
from autograd_course.visualize.tiles.view import Frame

_MOST_ROWS = 16  # that are listed one by one


def account(told: Story, step: int) -> str:
    """Tell a step: where it stands, the order of the tiles, every row's figures, the memory."""
    now, last = at(told, step), len(told["frames"]) - 1
    lines = [
        told["title"],
        f"Step {step} of {last}, {now['phase']}: {now['text']}",
        *_order(told),
        *_figures(told, now),
        *_memory(told, now),
    ]
    return "\n".join(lines)


def _order(told: Story) -> Iterator[str]:
    for phase in ("forward", "backward"):
        tiles = [f["tile"] for f in told["frames"] if f["phase"] == phase and f["tile"]]
        yield f"Order of the tiles in {phase}: {_places(tiles)}."


def _places(tiles: Sequence[Sequence[int]]) -> str:
    names = [f"({i}, {j})" for i, j in tiles]
    return " ".join(names if len(names) <= _MOST_ROWS else [*names[:5], "…", *names[-3:]])


def _figures(told: Story, now: Frame) -> Iterator[str]:
    figures = now["figures"]
    back = now["phase"] in ("backward", "end")
    if not figures or len(told["hidden"]) > _MOST_ROWS:
        return
    for query in range(len(told["hidden"])):
        row = figures.get(str(query))
        if row is None:
            yield f"  row {query}: not begun"
            continue
        yield f"  row {query}: {_row(row, back)}"


def _row(row: dict[str, Any], back: bool) -> str:
    texts, parts = row["texts"], row["parts"]
    words = ", ".join(f"{name} = {text}" for name, text in texts.items())
    words = f"done, {words}" if list(texts) == ["L"] else words
    factor = f", rescaled {row['factor']}" if row["factor"] else ""
    if back:
        return f"{words}, sum of P so far {parts[0] / 10:.0f}%"
    shares = " + ".join(f"{100 * part / (sum(parts) or 1):.0f}%" for part in parts)
    return f"{words}{factor} (by tiles: {shares})"


def _memory(told: Story, now: Frame) -> Iterator[str]:
    held = now["held"]
    if held:
        phase = "backward" if now["phase"] == "backward" else "forward"
        whole = told["whole"][phase]["text"]
        yield f"Alive at once: {held['text']} ({held['parts']}); as one tile {whole}."
    yield told["memory"]
