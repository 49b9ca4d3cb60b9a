"""Bundle each widget's scripts and style sheets, so that a page loads one file of each type.

Jupyter passes a widget's script to the browser as text without an address, so the script cannot
import other files. A widget's bundle contains ``widget.js`` and all imported files, each in a
separate function. As in real modules, a file sees only the names that it imports. Each source line
becomes one line in the bundle, below a line with the file name.

The widgets use only a few features of JavaScript modules, and the bundler supports only these
features::

    import { name, name as other } from "./file.js";
    export const name …      export class name …      export function name …
    export default …         in widget.js

If a source uses another feature, an error message of one sentence tells the author what to write
instead. A style sheet imports another style sheet with ``@import "./file.css";``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from tools.errors import AuthoringError

WIDGETS = Path("autograd_course", "visualize")
BUNDLES = WIDGETS / "bundles"

_STATEMENT = re.compile(
    r"""
    ^import\s*\{(?P<names>[^{}]*)\}\s*from\s*"(?P<file>[^"\n]+)";
    | ^export\ (?=(?:const|class|function|async\ function)\ (?P<exported>[\w$]+))
    | ^(?P<default>export\ default)\b
    | ^(?:\w[^={(\n]*=\s*)?(?P<awaits>await)\b
    | ^[ \t]*(?P<other>import|export)\b
    | (?P<called>\bimport)(?:\s*\(|\.meta\b)
    """,
    re.MULTILINE | re.VERBOSE,
)
_BINDING = re.compile(r"([\w$]+)(?:\s+as\s+([\w$]+))?")
_SHEET = re.compile(r'^[ \t]*@import\b(?: "(?P<file>[^"\n]+)";)?', re.MULTILINE)
_FORMS = {
    "import": 'write `import { name } from "./file.js";` at the beginning of a line',
    "export": "write `export` before a const, class or function, and the name after it",
}


def bundles(root: Path) -> dict[Path, str]:
    """Return the text of every bundle in the course at ``root``. The keys are paths.

    Raises AuthoringError if a source uses a feature that the bundler does not support.
    """
    home, texts = root / WIDGETS, {}
    for script in sorted(home.glob("*/widget.js")):
        bundle = root / BUNDLES / script.parent.name
        texts[bundle.with_suffix(".js")] = bundle_script(script, home)
        texts[bundle.with_suffix(".css")] = bundle_sheet(script.with_suffix(".css"), home)
    return texts


def bundle_script(entry: Path, home: Path) -> str:
    """Return one ES module that contains ``entry`` and all files that it imports from ``home``."""
    scripts = _Scripts(home)
    scripts.include(entry, entry, 1)
    *imported, (_, last) = scripts.texts.items()
    parts = [f"// {_built_from(entry, home)}\n"]
    for path, text in imported:
        names = ", ".join(scripts.exports[path])
        parts.append(f"// {_label(path, home)}\nconst {_variable(path, home)} = (() => {{")
        parts.append(f"{text}\nreturn {{ {names} }};\n}})();\n")
    # Errors and the browser's debugger then show this name instead of a blob's address.
    name = f"//# sourceURL={(BUNDLES / entry.parent.name).as_posix()}.js"
    return "\n".join([*parts, f"// {_label(entry, home)}", last, name, ""])


def bundle_sheet(entry: Path, home: Path) -> str:
    """Return one style sheet that contains ``entry`` and the style sheets that it imports."""
    sheets = _Sheets(home)
    sheets.include(entry, entry, 1)
    parts = [f"/* {_label(path, home)} */\n{text}" for path, text in sheets.texts.items()]
    return "\n".join([f"/* {_built_from(entry, home)} */\n", *parts])


def _built_from(entry: Path, home: Path) -> str:
    return f"Built from {_label(entry, home)} by `make notebooks`: edit the sources named below."


def _label(path: Path, home: Path) -> str:
    return path.relative_to(home).as_posix()


def _variable(path: Path, home: Path) -> str:
    return "$" + re.sub(r"\W", "_", _label(path.with_suffix(""), home))


class _Sheets:
    """Files in import order: each file comes after the files that it imports.

    ``texts`` holds their text without the import statements.
    """

    statement = _SHEET
    form = 'write `@import "./file.css";`'

    def __init__(self, home: Path) -> None:
        self.home = home
        self.texts: dict[Path, str] = {}
        self._begun: list[Path] = []

    def include(self, path: Path, importer: Path, line: int) -> None:
        """Add a file after the files that it imports, unless it has already been added."""
        if path in self.texts:
            return
        if path in self._begun:
            circle = " → ".join(_label(each, self.home) for each in [*self._begun, path])
            repair = "move what both need into a third file"
            raise AuthoringError(importer, line, f"files import each other: {circle}", repair)
        if not path.is_file():
            problem = f"there is no file {_label(path, self.home)}"
            raise AuthoringError(importer, line, problem, "correct the path of the import")
        self._begun.append(path)
        source = path.read_text(encoding="utf-8")
        text = self.statement.sub(lambda found: self.replaced(found, path), source)
        self.texts[path] = text.strip("\n") + "\n"
        self._begun.pop()

    def replaced(self, found: re.Match[str], path: Path) -> str:
        """Return the text that replaces a statement in the file at ``path``."""
        self.imported(found, path)
        return ""

    def imported(self, found: re.Match[str], path: Path) -> Path:
        """Include the file that an import statement names, and return the path of that file."""
        if found["file"] is None:
            self.refuse(found, path, self.form)
        if not found["file"].startswith("."):
            self.refuse(found, path, "name a file of the course, as in `./kit.js`")
        wanted = (path.parent / found["file"]).resolve()
        if not wanted.is_relative_to(self.home.resolve()):
            self.refuse(found, path, f"import a file below {self.home.name}/")
        other = self.home / wanted.relative_to(self.home.resolve())
        self.include(other, path, _line(found))
        return other

    def refuse(self, found: re.Match[str], path: Path, repair: str) -> NoReturn:
        """Raise AuthoringError for the line that contains a statement."""
        code = found.string[found.start() :].strip().partition("\n")[0]
        raise AuthoringError(path, _line(found), f"the bundler does not know `{code}`", repair)


class _Scripts(_Sheets):
    """JavaScript modules in import order. ``exports`` lists the names that each module exports."""

    statement = _STATEMENT

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.exports: dict[Path, list[str]] = {}

    def include(self, path: Path, importer: Path, line: int) -> None:
        """Add a module after the modules that it imports.

        A widget's main module has a default export.
        """
        self.exports.setdefault(path, [])
        super().include(path, importer, line)
        if path == importer and "export default" not in self.texts[path]:
            raise AuthoringError(path, 1, "a widget has no default export", "add `export default`")

    def replaced(self, found: re.Match[str], path: Path) -> str:
        """Convert an import to a destructuring, or remove ``export`` from a declaration."""
        if found["file"]:
            return self._destructured(found, path)
        if found["exported"]:
            self.exports[path].append(found["exported"])
            return ""
        if found["default"] and path.name == "widget.js":
            return found[0]
        if found["awaits"]:
            self.refuse(found, path, "call `await` in an async function")
        self.refuse(found, path, _FORMS["export" if "export" in found[0] else "import"])

    def _destructured(self, found: re.Match[str], path: Path) -> str:
        other = self.imported(found, path)
        for binding in filter(None, (each.strip() for each in found["names"].split(","))):
            name = _BINDING.fullmatch(binding)
            if not name:
                self.refuse(found, path, _FORMS["import"])
            if name[1] not in self.exports[other]:
                problem = f"{_label(other, self.home)} exports no `{name[1]}`"
                raise AuthoringError(path, _line(found), problem, "correct the name, or export it")
        names = re.sub(r"\s+as\s+", ": ", found["names"])
        return f"const {{{names}}} = {_variable(other, self.home)};"


def _line(found: re.Match[str]) -> int:
    return found.string.count("\n", 0, found.start()) + 1
