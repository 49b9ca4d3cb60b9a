"""Answers to the exercises: right ones, and wrong ones of the kinds that people hand in.

Each lesson's module has five tables. ``SOLVED`` contains the definitions of the solved notebook.
``RIGHT`` maps each exercise to a right answer. ``ALSO_RIGHT`` contains other right answers as
``{difference: (exercise, answer)}``. ``WRONG`` contains wrong answers. ``KNOWN`` contains values
that the references must give, as ``(exercise, inputs, output)``.
"""

from answers import (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
    lesson_12,
    lesson_13,
    lesson_14,
    lesson_15,
)

LESSONS = (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
    lesson_12,
    lesson_13,
    lesson_14,
    lesson_15,
)

RIGHT = {exercise: answer for lesson in LESSONS for exercise, answer in lesson.RIGHT.items()}
ALSO_RIGHT = {what: right for lesson in LESSONS for what, right in lesson.ALSO_RIGHT.items()}
WRONG = [wrong for lesson in LESSONS for wrong in lesson.WRONG]
KNOWN = [known for lesson in LESSONS for known in lesson.KNOWN]
