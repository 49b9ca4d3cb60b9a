"""Collect the project's sentences from Markdown, docstrings, and printed strings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PACKAGES = (
    "packages/autograd-doctor/src/autograd_doctor",
    "packages/autograd-classroom/src/autograd_classroom",
    "autograd_course",
    "tools",
)
_PAGES = ("*.md", ".github/**/*.md", "docs/**/*.md", "packages/*/*.md")
_BUILT = {"docs/rules.md", "docs/error_messages.md", "docs/command_line.md"}
_RULES = Path("tools", "prose", "wording.py")  # these files contain examples that break the rules
_WORDS_OF_A_MESSAGE = 5  # a string with fewer words is a name, a label or a key

_MARKDOWN = MarkdownIt("commonmark").enable("table")
_ROUTE = re.compile(r"<!-- route -->.*?<!-- /route -->", re.DOTALL)
_HEADER = re.compile(r"\A\+\+\+\n.*?^\+\+\+\n", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(?=\*{0,2}\w+: )", re.MULTILINE)
_ENDS = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[\"')*]*\s+(?=[\W_]*[A-Z`…:])"
    r"|(?<=[\w\]]{4}[.?])\s+(?=[a-z])"  # a name in lower case may begin a sentence
)
_TABLE = re.compile(r"^=+ +=+$.*^=+ +=+$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_PARTS = re.compile(r"\n\s*\n|\n(?= )")
_EXAMPLE = re.compile(r"^\s*>>>.*", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Sentence:
    """A sentence and its position. Backticks mark the code in it, as in Markdown."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def sentences(root: Path) -> Iterator[Sentence]:
    """Yield the sentences in all documents, docstrings, help texts and messages."""
    pages = {path for pattern in _PAGES for path in root.glob(pattern)}
    modules = set[Path]()
    for package in _PACKAGES:
        pages |= set((root / package).rglob("*.md"))
        modules |= set((root / package).rglob("*.py"))
    for path in sorted(pages - {root / built for built in _BUILT}):
        yield from of_markdown(path.read_text(encoding="utf-8"), path.relative_to(root))
    for path in sorted(modules - {root / _RULES}):
        yield from of_python(path.read_text(encoding="utf-8"), path.relative_to(root))


def of_markdown(text: str, path: Path, first: int = 1) -> Iterator[Sentence]:
    """Yield the sentences in a Markdown page whose first line has the number ``first``."""
    text = _ROUTE.sub(lambda route: "\n" * route[0].count("\n"), text)  # a list of headings
    header = _HEADER.match(text)
    blank = "\n" * header[0].count("\n") if header else ""
    for token in _MARKDOWN.parse(blank + text[len(header[0]) if header else 0 :]):
        if token.type == "inline" and token.map:
            yield from _split(_plain(token), path, first + token.map[0])


def of_python(text: str, path: Path) -> Iterator[Sentence]:
    """Yield the sentences in a module's docstrings, and its strings that are sentences."""
    docstrings, strings = set[ast.expr](), dict[ast.expr, str]()
    parts = set[ast.expr]()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                match node.body:
                    case [ast.Expr(ast.Constant(str()) as own), *_]:
                        docstrings.add(own)
            case ast.JoinedStr(values):
                parts.update(values)
                strings[node] = "".join(map(_inserted, values))
            case ast.Constant(str(said)) if node not in parts:
                strings[node] = said
    for node, said in sorted(strings.items(), key=lambda found: found[0].lineno):
        if node in docstrings:
            yield from of_markdown(_as_markdown(said), path, node.lineno)
        elif len(said.split()) >= _WORDS_OF_A_MESSAGE and not _is_code(said):
            yield from _of_text(said, path, node.lineno)


def _inserted(part: ast.expr) -> str:
    """Return part of an f-string with ``…`` in place of each inserted value."""
    return str(part.value) if isinstance(part, ast.Constant) else "…"


def _is_code(text: str) -> bool:
    if text.lstrip().startswith(("<", "import ", "from ")):
        return True
    try:
        ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return False
    return True


def _as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown, in which each described argument is a list item."""
    said = _TABLE.sub("", _EXAMPLE.sub("", inspect.cleandoc(docstring)))
    return _ENTRY.sub("- ", _SECTION.sub("", said)).replace("``", "`")


def _plain(token: Token) -> str:
    said = ""
    for child in token.children or ():
        if child.type == "code_inline":
            said += f"`{child.content}`"
        elif child.type in {"softbreak", "hardbreak"}:
            said += "\n"
        elif child.type == "text":
            said += child.content
    return said


def _of_text(text: str, path: Path, line: int) -> Iterator[Sentence]:
    """Yield the sentences in a text. A blank or indented line starts a new sentence."""
    begin = 0
    for part in _PARTS.split(text):
        yield from _split(part, path, line + text.count("\n", 0, begin))
        begin = text.index(part, begin) + len(part)


def _split(text: str, path: Path, line: int) -> Iterator[Sentence]:
    masked = _CODE.sub(lambda code: f"`{'x' * len(code[1])}`", text)
    ends = [match.end() for match in _ENDS.finditer(masked)]
    for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
        if said := " ".join(text[begin:end].split()):
            lead = len(text[begin:end]) - len(text[begin:end].lstrip())
            yield Sentence(path, line + text.count("\n", 0, begin + lead), said)
