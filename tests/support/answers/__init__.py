"""Answers to the exercises: right ones, and wrong ones of the kinds that people hand in.

Each lesson's module has five tables. ``SOLVED`` contains the definitions of the solved notebook.
``RIGHT`` maps each exercise to a right answer. ``ALSO_RIGHT`` contains other right answers as
``{difference: (exercise, answer)}``. ``WRONG`` contains wrong answers. ``KNOWN`` contains values
that the references must give, as ``(exercise, inputs, output)``.
"""

from importlib import import_module
from pathlib import Path

LESSONS = tuple(
    import_module(f"answers.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("lesson_??.py"))
)

RIGHT = {exercise: answer for lesson in LESSONS for exercise, answer in lesson.RIGHT.items()}
ALSO_RIGHT = {what: right for lesson in LESSONS for what, right in lesson.ALSO_RIGHT.items()}
WRONG = [wrong for lesson in LESSONS for wrong in lesson.WRONG]
KNOWN = [known for lesson in LESSONS for known in lesson.KNOWN]
