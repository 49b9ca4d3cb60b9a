"""Create the pictures in README.md. ``make pictures`` runs this module."""

from collections.abc import Iterator
from pathlib import Path

from docs.pictures.flow import GROUNDS, animated, traced
from tools.printing import find_chromium

HERE = Path(__file__).parent


def pictures() -> Iterator[tuple[str, bytes]]:
    """Yield the file name and the contents of each picture."""
    trace = traced()
    for scheme in GROUNDS:
        yield f"gradient_flow_{scheme}.svg", animated(trace, scheme).encode()
    if (executable := find_chromium()) is None:
        print("There is no Chromium: the screenshots of the grader stay as they are.")
        return
    from docs.pictures.grader import screenshots

    for scheme, png in screenshots(executable):
        yield f"grader_{scheme}.png", png


if __name__ == "__main__":
    for name, content in pictures():
        (HERE / name).write_bytes(content)
        print(f"wrote docs/pictures/{name}, {len(content) / 1000:.0f} kB")
