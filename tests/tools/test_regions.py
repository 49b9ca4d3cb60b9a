"""Solution regions: how they become stubs, and the errors with their line and their repair."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools.errors import AuthoringError
from tools.exercises import exercise_cells
from tools.percent import parse, render
from tools.regions import cut

SOURCE = Path("solutions/01_sample.py")
ANSWER = (
    '# %% nbgrader={"grade": false, "grade_id": "square", "locked": false, '
    '"schema_version": 3, "solution": true}\n'
)

STUBBED = {
    "in a method, twice, what is given stays": (
        """\
        class Square:
            def forward(x):
                ### BEGIN SOLUTION
                if x is None:
                    return 0

                return x * x
                ### END SOLUTION

            def backward(g):
                given = 1
                ### BEGIN SOLUTION
                return 2 * g
                ### END SOLUTION
        """,
        """\
        class Square:
            def forward(x):
                # YOUR CODE HERE
                raise NotImplementedError

            def backward(g):
                given = 1
                # YOUR CODE HERE
                raise NotImplementedError
        """,
    ),
    "tabs are kept": (
        "def f():\n\t### BEGIN SOLUTION\n\treturn 1\n\t### END SOLUTION\n",
        "def f():\n\t# YOUR CODE HERE\n\traise NotImplementedError\n",
    ),
    "the top level of a cell keeps running": (
        "rule = ...\n### BEGIN SOLUTION\nrule = 'saved-twice'\n### END SOLUTION\nprint(rule)\n",
        "rule = ...\n# YOUR CODE HERE\nprint(rule)\n",
    ),
    "no region": ("y = 1\n", "y = 1\n"),
}


@pytest.mark.parametrize(("solved", "unsolved"), STUBBED.values(), ids=STUBBED)
def test_a_region_becomes_a_stub_at_its_indentation(solved: str, unsolved: str) -> None:
    assert cut(dedent(solved), SOURCE) == dedent(unsolved).rstrip("\n")


REFUSED_MARKERS = {
    "nested": (
        """\
        ### BEGIN SOLUTION
        x = 1
        ### BEGIN SOLUTION
        ### END SOLUTION
        """,
        "12: BEGIN SOLUTION inside a solution; end the region of line 10 first",
    ),
    "unclosed": (
        """\
        x = 0
        ### BEGIN SOLUTION
        x = 1
        """,
        "11: BEGIN SOLUTION is never closed; add '### END SOLUTION'",
    ),
    "stray end": (
        """\
        x = 0
        ### END SOLUTION
        """,
        "11: END SOLUTION without a BEGIN; remove it",
    ),
    "empty": (
        """\
        ### BEGIN SOLUTION

        ### END SOLUTION
        """,
        "12: an empty solution; write it",
    ),
    "after code on the same line": (
        "x = 1  ### BEGIN SOLUTION\n",
        "10: not a clean solution marker: 'x = 1  ### BEGIN SOLUTION'",
    ),
    "one hash too few": (
        "## BEGIN SOLUTION\nx = 1\n## END SOLUTION\n",
        "10: not a clean solution marker",
    ),
    "END indented differently": (
        """\
        def f():
            ### BEGIN SOLUTION
            return 1
        ### END SOLUTION
        """,
        "13: the solution is not indented as its markers are",
    ),
    "body left of its markers": (
        """\
        if True:
            ### BEGIN SOLUTION
            x = 1
        y = 2
            ### END SOLUTION
        """,
        "14: the solution is not indented as its markers are",
    ),
}


@pytest.mark.parametrize(("source", "message"), REFUSED_MARKERS.values(), ids=REFUSED_MARKERS)
def test_a_bad_marker_is_refused_with_its_line_and_the_repair(source: str, message: str) -> None:
    with pytest.raises(AuthoringError) as caught:
        cut(dedent(source), SOURCE, first_line=10)

    assert str(caught.value).startswith(f"{SOURCE}:{message}")


def exercise(text: str) -> str:
    return render(exercise_cells(parse(text, SOURCE)))


def test_the_exercise_drops_solution_only_cells_and_keeps_metadata() -> None:
    text = exercise(
        "# %% [markdown]\n# # Exercises\n\n"
        '# %% [markdown] tags=["solution-only"]\n# This is the solved notebook.\n\n'
        f"{ANSWER}### BEGIN SOLUTION\ny = 1\n### END SOLUTION\n"
    )

    assert text == (f"# %% [markdown]\n# # Exercises\n\n{ANSWER}# YOUR CODE HERE\n")


REFUSED_SOLUTIONS = {
    "marker in a markdown cell": (
        "# %% [markdown]\n# Text\n# ### BEGIN SOLUTION\n",
        "3: a solution marker in a markdown cell",
    ),
    "answer cell without a region": (
        f"{ANSWER}y = 1\n",
        "2: an answer cell without a solution region would be published solved",
    ),
    "region outside an answer cell": (
        "# %%\n### BEGIN SOLUTION\ny = 1\n### END SOLUTION\n",
        "2: a solution region in a cell that is no answer cell",
    ),
    "solution text elsewhere": (
        f"{ANSWER}### BEGIN SOLUTION\na = 1\nb = 2\nc = 3\n### END SOLUTION\n\n"
        "# %%\nif True:\n    a = 1\n    b = 2\n    c = 3\n",
        "2: this solution's text also occurs outside its region",
    ),
    "half a statement": (
        f"{ANSWER}y = (\n    ### BEGIN SOLUTION\n    1\n    ### END SOLUTION\n)\n",
        "2: without its solution this cell does not parse",
    ),
    "an indented first line": ("# %%\n 0\n", "2: a cell of code begins with an indented line"),
    "text before the first cell": ("x = 1\n\n# %%\ny = 1\n", "1: 2 cells but 1 lines '# %%'"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED_SOLUTIONS.values(), ids=REFUSED_SOLUTIONS)
def test_a_solution_that_would_leak_or_break_is_refused(text: str, message: str) -> None:
    with pytest.raises(AuthoringError) as caught:
        exercise(text)

    assert str(caught.value).startswith(f"{SOURCE}:{message}")


def test_a_short_line_of_a_solution_may_stand_in_given_code() -> None:
    text = exercise(
        f"# %%\ny = 1\n\n{ANSWER}### BEGIN SOLUTION\ny = 1\n### END SOLUTION\n",
    )

    assert text.count("y = 1") == 1
