"""A call to ``diagnose`` that checks its promises, whatever its arguments are."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from typing import Any

from autograd_doctor._check import as_json, as_page
from autograd_doctor._execution.calls import prepare

from autograd_course import CannotDiagnoseError, Diagnosis, diagnose
from fuzz.world import changed, snapshot

MOST_SECONDS = 20.0  # maximum CPU time of one call
_OF_OURS = re.compile(r"Traceback|autograd_course[/.]\w|site-packages|0x[0-9a-f]{6,}")
_VOID = {"meta", "br", "img", "hr", "input", "link"}


def examined(fn: Any, inputs: Any, **options: Any) -> Diagnosis | str:
    """Check the promises. Return the diagnosis, or the sentence with which diagnose refuses one."""
    prepare()  # PyTorch's first imports add a warning filter
    before, begun = snapshot(inputs), time.process_time()
    try:
        found: Diagnosis | str = diagnose(fn, inputs, **options)
    except CannotDiagnoseError as error:
        found = str(error)
    assert time.process_time() - begun < MOST_SECONDS
    assert not (names := changed(before, snapshot(inputs))), names
    (_require_sentence if isinstance(found, str) else _require_documents)(found)
    return found


def _require_sentence(said: str) -> None:
    assert "diagnose itself failed" not in said, said
    assert not _OF_OURS.search(said), said
    assert len(said.splitlines()) == 1, said
    assert len(said) < 1000, said


def _require_documents(found: Diagnosis) -> None:
    text = str(found)
    assert not _OF_OURS.search(text), text
    json.dumps(found.to_dict())
    json.loads(as_json(found))
    for page in (found._repr_html_(), as_page(found)):
        assert unbalanced(page) == []
    unexamined = None if found.unexamined else True
    assert found.ok is (False if any(f.severity == "error" for f in found.findings) else unexamined)


class _Tags(HTMLParser):
    """Collects the open tags, and the end tags that have no start tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.stray: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()
        else:
            self.stray.append(tag)


def unbalanced(page: str) -> list[str]:
    """Return the tags of a page that were never closed or never opened."""
    tags = _Tags()
    tags.feed(page)
    tags.close()
    return [*tags.open, *tags.stray]
