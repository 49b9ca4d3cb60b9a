"""Files that do harm before any code runs. Harmful zips are in test_classroom_submissions."""

from __future__ import annotations

from dataclasses import dataclass

from handed_in import IMPORTS, SQUARE, cell, notebook

_RIGHT = notebook(cell(IMPORTS), cell(SQUARE, "square"))


@dataclass(frozen=True)
class HostileFile:
    """A harmful file, the expected ``student``, and the text ``said`` that the report contains."""

    name: str
    student: str = ""
    said: str = ""
    data: bytes = _RIGHT
    size: int = 0  # size in bytes that a sparse file claims to have


FILES = {
    "200 MB": HostileFile("big.ipynb", said="more than 32,000,000 bytes", size=200_000_000),
    "a name that turns round": HostileFile("\u202eabc.ipynb", r"\x202eabc"),
    "a name of half characters": HostileFile("a\udcffb.ipynb", r"a\xffb"),
    "a name that clears the screen": HostileFile("a\x1b[2Jb\n.ipynb", r"a\x1b[2Jb\x0a"),
    "a name that is a formula": HostileFile("=cmd()|x.ipynb", "=cmd()|x"),
    "a name that is HTML": HostileFile("<script>.ipynb", "<script>"),
    "a name that looks like another": HostileFile("\u0430nn.ipynb", "\u0430nn"),
    "an id that looks like another": HostileFile(
        "eve.ipynb", "eve", "it has a cyrillic small letter a",
        notebook(cell(IMPORTS), cell(SQUARE, "squ\u0430re")),
    ),
    "a codec that runs": HostileFile(
        "eve.py", "eve", "",
        f"# -*- coding: unicode_escape -*-\n{IMPORTS}\n{SQUARE}".encode(),
    ),
    "an archive that calls itself a notebook": HostileFile(
        "eve.ipynb", said="a zip archive", data=b"PK\x03\x04"
    ),
}  # fmt: skip
