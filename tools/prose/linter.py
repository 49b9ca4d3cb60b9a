"""Find sentences that are hard to read, using proselint's rules and our own rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from proselint.checks import __register__
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from tools.prose.sentences import Sentence, sentences
from tools.prose.wording import WORDINGS

LONGEST = 35  # maximum number of words in a sentence; code counts as one word

# proselint's typography rules do not suit text with code, and some of its rules are for fiction.
_PROSELINT = dict.fromkeys(
    (
        "cliches",
        "hedging",
        "lexical_illusions",
        "malapropisms",
        "misc.illogic",
        "misc.phrasal_adjectives",
        "misc.preferred_forms",
        "mixed_metaphors",
        "mondegreens",
        "needless_variants",
        "nonwords",
        "redundancy",
        "spelling",
        "terms",
    ),
    True,
)
_CODE = re.compile(r"`[^`]*`")
_SEPARATOR = "\n\n–\n\n"  # prevents proselint's rules from matching across two sentences


@dataclass(frozen=True)
class Finding:
    """A sentence, the words in it that break a rule, and a better wording."""

    sentence: Sentence
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.sentence}\n    {self.words!r}: {self.instead}"


# Sentences that may break a rule, each with a reason.
EXCEPTIONS = {
    "a: the derivative of 5y. b: of y², at y = 9. c: of y + 4y. d: of 2xy with respect to y, at "
    "x = 3. e: of (y₀ + y₁ + y₂ + y₃) / 4 with respect to y₀.": "five items in one line of a hint",
}


def findings(root: Path) -> list[Finding]:
    """Apply all rules to the repository at ``root``, and return the findings."""
    read = [each for each in sentences(root) if each.text not in EXCEPTIONS]
    return [*in_our_words(read), *in_words_of_proselint(read)]


def in_our_words(read: Sequence[Sentence]) -> Iterator[Finding]:
    """Yield the findings of our own rules."""
    for sentence in read:
        said = without_code(sentence.text)
        for wording in WORDINGS:
            if words := wording.found_in(said):
                yield Finding(sentence, words, f"write: {wording.instead}")
        if (count := len(re.findall(r"\w\S*", said))) > LONGEST:
            yield Finding(sentence, f"{count} words", f"make sentences of at most {LONGEST}")


def in_words_of_proselint(read: Sequence[Sentence]) -> Iterator[Finding]:
    """Yield proselint's findings."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    texts = [f"{without_code(sentence.text)}{_SEPARATOR}" for sentence in read]
    ends = list(accumulate(map(len, texts)))
    file = LintFile("sentences", "".join(texts))
    for result in file.lint({"max_errors": 1000, "checks": _PROSELINT}):
        begin, end = result.check_result.span
        if len(file.content[begin:end].split()[0]) == 1:
            continue  # repeated digits, as in a style sheet or a vector
        sentence = read[bisect_right(ends, begin - 1)]  # LintFile inserts a line break at the start
        yield Finding(sentence, file.content[begin:end].strip(), result.check_result.message)


def without_code(sentence: str) -> str:
    """Return a sentence in which each piece of code is replaced with one word."""
    return _CODE.sub("`x`", sentence)
