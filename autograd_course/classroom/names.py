"""What each exercise's answer is called: the name that its grader cell hands to ``grade``.

The released notebooks say the same in their grader cells; they are no part of the installed
package, and what a student hands in cannot be asked. A test compares the two.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autograd_course.grader.exercises import CATALOGUE
from autograd_course.shell.syllabus import SYLLABUS

ASKED: Mapping[str, str] = MappingProxyType(
    {exercise: name for asked in SYLLABUS.values() for exercise, name in asked.items()}
)


def is_shared(exercise_id: str) -> bool:
    """Whether other exercises of the lesson ask for the same name, so that it tells nothing."""
    same = list(SYLLABUS[CATALOGUE[exercise_id].lesson].values())
    return same.count(ASKED[exercise_id]) > 1
