"""The exercises of lesson 07: attention in six tiers, each with a bound of its own."""

from autograd_course.grader.exercise import Exercise
from autograd_course.grader.exercises.lesson_07_tiles import TILES
from autograd_course.grader.exercises.lesson_07_whole import WHOLE

LESSON = "07_attention_challenge"
TITLE = "The attention challenge"

EXERCISES: tuple[Exercise, ...] = (*WHOLE, *TILES)
