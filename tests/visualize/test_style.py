"""The look of the lessons' figures."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgba

from autograd_course.visualize.kit.style import BLUE, PAPER, figure, note


def test_a_figure_is_opaque_shown_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf().get_facecolor()))
    with figure(columns=2) as axes:
        note(axes[0], "a label", (0, 0), BLUE)
        assert len(axes) == 2
    assert shown == [to_rgba(PAPER)]
    assert not plt.get_fignums()


def test_the_style_ends_with_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plt, "show", lambda: None)
    before = dict(plt.rcParams)
    with figure():
        pass
    assert dict(plt.rcParams) == before
