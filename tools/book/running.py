"""Run the code of a Markdown page when the book is built, and insert live elements into the text.

The widget that the code calls ``flow`` replaces the comment ``<!-- widget: flow -->``, and a vote
replaces the comment ``<!-- vote: one-of-five -->``. GitHub does not show these comments.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from runpy import run_path
from typing import Any

from tools.book.live import LivePage
from tools.book.questions import asked
from tools.book.recording import shown
from tools.book.votes import VOTES

_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"^<!-- (?P<kind>vote|widget): (?P<name>[\w-]+) -->$", re.MULTILINE)


def is_live(text: str) -> bool:
    """Return whether a page contains live elements."""
    return _MARK.search(text) is not None


def run(text: str, name: str) -> tuple[dict[str, Any], str]:
    """Run all Python code on a page as the file ``name``.

    Return the variables and the printed output.
    """
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()) as printed:
        file = Path(folder, name)
        file.write_text("\n\n".join(_CODE.findall(text)), encoding="utf-8")
        return run_path(str(file)), printed.getvalue()


def enlivened(text: str, live: LivePage) -> str:
    """Return a page in which live elements replace the comments. ``live`` collects the elements."""
    names, _ = run(text, f"{Path(live.place).stem}.py")

    def vote(name: str) -> str:
        questions = asked(VOTES[name])
        return f"{live.ballot(VOTES[name])}\n\n::::{{div}} questions\n{questions}\n::::"

    def widget(name: str) -> str:
        picture = names[name]._repr_mimebundle_()[0]["image/png"]
        still = f'<img src="data:image/png;base64,{picture}" alt="The last step. In words: below.">'
        return f"{live.widget(shown(names[name]))}\n<noscript>{still}</noscript>"

    elements: dict[str, Callable[[str], str]] = {"vote": vote, "widget": widget}
    return _MARK.sub(lambda mark: elements[mark["kind"]](mark["name"]), text)
