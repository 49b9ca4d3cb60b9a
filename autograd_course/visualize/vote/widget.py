"""The live vote: choose what the next cell will show, run it, and compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import traitlets

from autograd_course.learner.state import State
from autograd_course.learner.store import Kept, load, update
from autograd_course.quizzes import QuizError, Vote
from autograd_course.quizzes import load as load_quiz
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Saved
from autograd_course.visualize.vote.describe import answer, markdown, page, plain, saved


@dataclass(frozen=True, repr=False)
class Said:
    """Text that a notebook shows unchanged."""

    text: str

    def __repr__(self) -> str:
        return self.text


class VoteView(Saved):
    """A vote on what the next cell shows. :func:`vote` creates this widget.

    ``chosen`` is the letter of an option. To vote, set ``chosen``. Only the first vote counts. A
    saved notebook contains the question and its options as Markdown and as plain text.
    """

    _esm = BUNDLES / "vote.js"
    _css = BUNDLES / "vote.css"

    vote: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    chosen: traitlets.Unicode[str, str | bytes] = traitlets.Unicode().tag(**FROM_PAGE)
    kept: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    def __init__(self, vote: Vote) -> None:
        self._vote = vote
        remembered = load()
        super().__init__(
            vote=page(vote),
            chosen=self._counted(remembered.state),
            kept=self._progress(remembered),
        )
        self.observe(self._keep, "chosen")

    def answer(self, letter: str) -> Said:
        """Vote for the option ``letter``, such as ``"a"``, from code.

        Raises :class:`TraceError` if the vote does not have this option.
        """
        chosen = letter.strip().lower() if isinstance(letter, str) else ""
        if chosen not in self._vote.lettered:
            raise TraceError(
                f"Vote {self._vote.id!r} has the options {', '.join(self._vote.lettered)}; "
                f'vote for one of them, as in {self._vote.call}.answer("a").'
            )
        self.chosen = chosen
        return Said(self.kept["said"])

    def explain(self) -> Said:
        """Return text that names the right option and explains why it is right."""
        return Said(answer(self._vote, self.kept["chosen"]))

    @traitlets.validate("chosen")
    def _known_one(self, proposal: Any) -> str:
        """Drop a letter that is not an option of this vote, because the page may be outdated."""
        return proposal["value"] if proposal["value"] in self._vote.lettered else ""

    def _counted(self, state: State) -> str:
        """Return the letter of the vote that counts, or an empty string."""
        chosen = state.question(self._vote.home, self._vote.id).chosen
        return chosen if chosen in self._vote.lettered else ""

    def _keep(self, change: Any) -> None:
        def voted(state: State) -> State:
            if not change["new"] or self._counted(state):
                return state
            vote, chosen = self._vote, change["new"]
            return state.answered(vote.home, vote.id, right=vote.is_right(chosen), chosen=chosen)

        self.kept = self._progress(update(voted))

    def _progress(self, kept: Kept) -> dict[str, Any]:
        chosen = self._counted(kept.state)
        return {
            "replies": self.kept.get("replies", -1) + 1 if self.trait_has_value("kept") else 0,
            "chosen": chosen,
            "said": saved(chosen, kept.note),
            "note": kept.note,
        }

    def __repr__(self) -> str:
        return plain(self._vote)

    def left(self) -> dict[str, str]:
        """Return the question as Markdown and as plain text."""
        return {"text/markdown": markdown(self._vote), "text/plain": repr(self)}


def vote(lesson: str, vote_id: str) -> VoteView:
    """Show a common belief, and ask what the next cell will show.

    Click an option to vote, and then run the next cell. The vote is saved in your progress file,
    and only your first vote counts. After you vote, a button shows which option is right, and why.
    If the widget does not work, call ``vote("02", "saved-as-attribute").answer("a")`` to vote and
    ``vote("02", "saved-as-attribute").explain()`` to see the answer.

    Args:
        lesson: The number of a lesson, such as ``"02"``.
        vote_id: The id of the vote in the file that contains the lesson's questions.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: The lesson has no such vote.

    Example:
        >>> from autograd_course.lesson import vote
        >>> type(vote("02", "saved-as-attribute")).__name__
        'VoteView'
    """
    try:
        return VoteView(load_quiz(lesson).vote(vote_id))
    except QuizError as error:
        raise TraceError(str(error)) from None
