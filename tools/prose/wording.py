"""Our own rules. Each rule contains a wording that is hard to read and a better wording."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Wording:
    """A wording that sentences must not contain.

    Attributes:
        pattern: A regular expression. It ignores case and does not match inside code.
        instead: What to write instead.
        finds: A sentence that breaks the rule.
        leaves: A similar sentence that does not break it.
    """

    pattern: str
    instead: str
    finds: str
    leaves: str

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE)

    def found_in(self, sentence: str) -> str:
        """Return the words that break the rule, or an empty string."""
        match = self._expression.search(sentence)
        return match[0] if match else ""


_W = Wording
WORDINGS = (
    # Long forms of a short word
    _W(r"\bin order to\b", "to", "Save x in order to reuse it.", "Save them in order."),
    _W(r"\bthe fact that\b", "that, because", "It uses the fact that f is linear.", "It tests this fact."),
    _W(r"\bas well as\b", "and", "It saves x as well as y.", "It compares y as well."),
    _W(r"\b(is|are) able to\b", "can", "It is able to run.", "It can run."),
    _W(r"\bin the case (that|where|of)\b", "if, for", "In the case of two outputs, it fails.", "In this case, it fails."),
    _W(r"\bmakes? use of\b", "use", "It makes use of a hook.", "It uses a hook."),
    _W(r"\ba (large|small|great) (number|amount) of\b", "many, few", "It takes a large number of steps.", "It takes the number of steps."),
    # Words that native writers do not use in this way
    _W(r"\bonce more\b|\banew\b", "again", "It builds the class anew.", "It builds the class at once."),
    _W(r"\bof (yours|ours)\b", "your own, our own", "Pass a reference of yours.", "Pass your own reference."),
    _W(r"\b(as ever|at hand)\b", "as before; available", "It takes the value at hand.", "It takes the value at once."),
    _W(r"\b(whoever|whichever)\b", "the person who, the user who", "It warns whoever calls it.", "It warns users who call it."),
    _W(r"\b(is|are|be|been|being|was|were) told\b", "say who tells whom", "The rule is told the name.", "The rule gets the name."),
    _W(r"\bbeside\b", "next to", "The page is beside the lesson.", "Besides x, it takes y."),
    _W(r"\bmostly\b", "usually, mainly", "It is mostly zero.", "It is almost zero."),
    _W(r"\balike\b", "both, similar", "It treats them alike.", "It treats them like lists."),
    _W(r"\b(stands?|stood|standing)\b(?!-in\b| (for|in for|alone|still|out)\b)", "is, comes", "The sum stands last.", "CI stands for continuous integration."),
    _W(r"\b(come|comes|came|coming) out as\b", "is, gives", "It comes out as 3.", "One gradient comes out."),
    _W(r"\b(has|have|is|can) (to )?be had\b", "you can get", "It can be had in one pass.", "It can be read in one pass."),
    _W(r"\bbelongs? into\b", "belongs in", "It belongs into the docstring.", "It belongs in the docstring."),
    _W(r"\b(see|sees) to it\b", "makes sure", "It sees to it that x is kept.", "Add it, as you see in it."),
    _W(r"\bnothing of\b", "nothing about", "It knows nothing of the course.", "It knows nothing about it."),
    _W(r"\b(what|that|which) (is|are|was|were) asked for\b", "name the thing", "It returns what is asked for.", "What is backward asked for?"),
    _W(r"\bfor itself\b|\bby itself alone\b", "separately", "It judges each for itself.", "It runs by itself."),
    _W(r"\bthe one\b.*, the other\b", "name the two things", "The one is x, the other is y.", "One is x, and the other is y."),
    _W(r"\ball that (it|they|is|was|lies?|belongs?)\b", "everything that", "It returns all that it saw.", "This is all that f needs."),
    _W(r"(?<!\bthere )\b(is|are|was|were) no (?!longer\b|more\b|less\b|different\b|better\b)\w+\.?$", "is not a", "This is no tensor.", "There is no tensor."),
    _W(r"\bwhere there is no(ne)?\b", "if there is no", "It is empty where there is none.", "It is empty if there is none."),
    # Word order and negation
    _W(r"(?<!,) only\.$", "move the word in front of what it limits", "It runs once only.", "It runs only once."),
    _W(r"\bnot (un(known|usual|like(ly)?|common|necessary)|without|impossible)\b", "say it without the double negation", "It is not uncommon.", "It is uncommon."),
    _W(r"\b(is|are|was|were|be) \w+ed to be \w+ed\b", "name who does what", "It is expected to be called.", "It is expected to run."),
)  # fmt: skip
