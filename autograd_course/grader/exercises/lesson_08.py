"""The exercises of lesson 08: a ward of twelve patients, to repair; six of them to name first."""

from autograd_course.grader.exercise import Exercise
from autograd_course.grader.exercises import (
    lesson_08_arriving,
    lesson_08_contract,
    lesson_08_state,
    lesson_08_values,
)
from autograd_course.grader.exercises.lesson_08_names import NAMES

LESSON = "08_debugging_clinic"
TITLE = "The debugging clinic"

WARDS = (lesson_08_contract, lesson_08_arriving, lesson_08_values, lesson_08_state)
REPAIRS = [repair for ward in WARDS for repair in ward.REPAIRS]
NAME_OF = {name.id.replace("name-", "repair-"): name for name in NAMES}

EXERCISES: tuple[Exercise, ...] = tuple(
    exercise for repair in REPAIRS for exercise in (*filter(None, [NAME_OF.get(repair.id)]), repair)
)
