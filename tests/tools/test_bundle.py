"""The bundler for the widgets: the modules that it joins, and its errors for all others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from repository import ROOT

from tools.bundle import BUNDLES, WIDGETS, bundle_script, bundle_sheet, bundles
from tools.errors import AuthoringError

KIT = """\
const PRIVATE = "kit";
let calls = 0;
export const name = () => `${PRIVATE} ${++calls}`;
export class Box { name() { return name(); } }
export async function later() { return await name(); }
"""
WIDGET = """\
import {
  Box, name as kitName,
} from "../kit/kit.js";
import { plot } from "../kit/plot.js";

const PRIVATE = "widget"; // the kit has another of this name

export default { all: () => [PRIVATE, kitName(), new Box().name(), plot()] };
"""


def home(folder: Path, **files: str) -> Path:
    """Write a widget and its kit, with ``__`` for ``/`` in their names. Return their folder."""
    plot = (
        'import { name } from "./kit.js";\nexport function plot() { return `plot of ${name()}`; }\n'
    )
    sources = {"kit__kit": KIT, "kit__plot": plot, "w__widget": WIDGET, **files}
    for name, text in sources.items():
        path = folder / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    return folder


def script(folder: Path) -> str:
    return bundle_script(folder / "w" / "widget.js", folder)


@pytest.mark.browser
def test_a_bundle_does_what_its_modules_do(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    load = """async text => {
      const url = URL.createObjectURL(new Blob([text], {type: 'text/javascript'}));
      const {default: widget} = await import(url);
      return widget.all();
    }"""
    told = page.evaluate(load, script(home(tmp_path)))
    page.close()

    # Both widgets import the same kit, which counts all calls.
    assert told == ["widget", "kit 1", "kit 2", "plot of kit 3"]


def test_each_line_of_a_source_is_a_line_of_the_bundle(tmp_path: Path) -> None:
    lines = script(home(tmp_path)).splitlines()

    start = lines.index("// w/widget.js") + 1
    assert lines[start : start + 8] == [
        "const {",
        "  Box, name: kitName,",
        "} = $kit_kit;",
        "const { plot } = $kit_plot;",
        *WIDGET.splitlines()[4:],
    ]
    assert [line for line in lines if line.startswith("// ") and line.endswith(".js")] == [
        "// kit/kit.js",
        "// kit/plot.js",
        "// w/widget.js",
    ]
    assert lines[-1] == "//# sourceURL=autograd_course/visualize/bundles/w.js"


REFUSED = {
    'import Box from "../kit/kit.js";': "the bundler does not know",
    'import * as kit from "../kit/kit.js";': "the bundler does not know",
    'import "../kit/kit.js";': "write `import { name } from",
    '  import { name } from "../kit/kit.js";': "at the beginning of a line",
    'import { default } from "../kit/kit.js";': "kit/kit.js exports no `default`; correct the name",
    'import { nmae } from "../kit/kit.js";': "kit/kit.js exports no `nmae`; correct the name",
    'import { PRIVATE } from "../kit/kit.js";': "kit/kit.js exports no `PRIVATE`; correct the name",
    'import { a b } from "../kit/kit.js";': "write `import { name } from",
    'import { name } from "../kit/kti.js";': "there is no file kit/kti.js; correct the path",
    'import { name } from "../../kit.js";': "import a file below ",
    'import { select } from "d3";': "name a file of the course, as in `./kit.js`",
    'const kit = await import("../kit/kit.js");': "call `await` in an async function",
    'const load = () => import("../kit/kit.js");': "write `import { name } from",
    "const here = import.meta.url;": "write `import { name } from",
    "export { name };": "write `export` before a const, class or function",
    'export * from "../kit/kit.js";': "write `export` before a const, class or function",
    "export let count = 0;": "write `export` before a const, class or function",
    "export const { one, other } = both;": "write `export` before a const, class or function",
    "await 0;": "call `await` in an async function",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_the_bundler_does_not_know_it_names(line: str, tmp_path: Path) -> None:
    folder = home(tmp_path, w__widget=f"// A widget.\n{line}\nexport default {{}};\n")

    with pytest.raises(AuthoringError) as raised:
        script(folder)

    assert str(raised.value).startswith(f"{folder / 'w' / 'widget.js'}:2: ")
    assert REFUSED[line] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_kit_has_no_default_export(tmp_path: Path) -> None:
    folder = home(tmp_path, kit__kit=f"{KIT}export default name;\n")

    with pytest.raises(
        AuthoringError, match=r"kit\.js:6: the bundler does not know `export default"
    ):
        script(folder)


def test_a_widget_has_one(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match=r"widget\.js:1: a widget has no default export; add"):
        script(home(tmp_path, w__widget="const render = () => {};\n"))


def test_a_circle_of_imports_is_shown(tmp_path: Path) -> None:
    folder = home(tmp_path, kit__kit='import { plot } from "./plot.js";\nexport const name = 0;\n')

    with pytest.raises(
        AuthoringError, match=r"kit/kit\.js → kit/plot\.js → kit/kit\.js; move what"
    ):
        script(folder)


def test_a_style_sheet_comes_after_those_that_it_imports_and_each_once(tmp_path: Path) -> None:
    for name, text in {
        "kit": ".kit {}\n",
        "picture": '@import "./kit.css";\n\n.picture {}\n',
        "widget": '/* A widget. */\n@import "./kit.css";\n@import "./picture.css";\n\n.widget {}\n',
    }.items():
        (tmp_path / f"{name}.css").write_text(text, encoding="utf-8")
    bundle = bundle_sheet(tmp_path / "widget.css", tmp_path)

    assert re.findall(r"^\.\w+", bundle, re.MULTILINE) == [".kit", ".picture", ".widget"]
    assert "@import" not in bundle


@pytest.mark.parametrize("line", ["@import url(kit.css);", '@import "kit.css" screen;'])
def test_another_import_of_a_style_sheet_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "widget.css").write_text(f".a {{}}\n{line}\n", encoding="utf-8")

    with pytest.raises(AuthoringError, match=r"widget\.css:2: .*; (write `@import|name a file)"):
        bundle_sheet(tmp_path / "widget.css", tmp_path)


SCRIPTS = sorted((ROOT / WIDGETS).glob("*/*.js"))
SOURCES = [path for path in SCRIPTS if path.parent != ROOT / BUNDLES]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_source_uses_each_name_that_it_imports(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    statements = re.findall(r"^import \{[^}]*\} from .*$", text, re.MULTILINE)
    rest = re.sub(r"^import \{[^}]*\} from .*$", "", text, flags=re.MULTILINE)
    names = {name for line in statements for name in re.findall(r"\w+", line.partition("}")[0])[1:]}

    assert {name for name in names if not re.search(rf"\b{name}\b", rest)} == set()


def test_each_widget_has_one_source_and_its_bundle_is_current() -> None:
    texts = bundles(ROOT)

    widgets = (ROOT / "autograd_course" / "visualize").glob("*/widget.py")

    assert {path.stem for path in texts} == {path.parent.name for path in widgets}
    assert {path.name for path in SOURCES if path.parent.name != "kit"} == {"widget.js"}
    assert {path: path.read_text(encoding="utf-8") for path in texts} == texts


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Yield a folder with a widget, whose sources ``python -m tools watch`` watches."""
    folder = home(tmp_path / WIDGETS)
    (folder / "w" / "widget.css").write_text(".w {}\n", encoding="utf-8")
    command = [sys.executable, "-m", "tools", "watch"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        yield tmp_path, process
        process.terminate()


def test_watch_bundles_at_each_save_and_goes_on_after_a_mistake(
    watching: tuple[Path, subprocess.Popen[str]],
) -> None:
    folder, process = watching
    said = iter(process.stdout or ())
    source = folder / WIDGETS / "w" / "widget.js"

    assert next(said) == f"watching {WIDGETS}; Ctrl+C ends it\n"
    assert {next(said), next(said)} == {f"wrote {BUNDLES}/w.js\n", f"wrote {BUNDLES}/w.css\n"}

    source.write_text(f"{WIDGET}export let late = 0;\n", encoding="utf-8")
    assert "the bundler does not know `export let late = 0;`" in next(said)

    source.write_text(f"{WIDGET}// saved again\n", encoding="utf-8")
    assert next(said) == f"wrote {BUNDLES}/w.js\n"
    assert "// saved again" in (folder / BUNDLES / "w.js").read_text(encoding="utf-8")
