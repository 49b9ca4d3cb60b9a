"""The knowledge checks: one plain file a lesson, a bank for the course, and their reading."""

from autograd_course.quizzes.bank import DRAWN, bank, draw
from autograd_course.quizzes.quiz import COURSE, Option, Question, Quiz, QuizError
from autograd_course.quizzes.reading import QUIZZES, load

__all__ = [
    "COURSE",
    "DRAWN",
    "QUIZZES",
    "Option",
    "Question",
    "Quiz",
    "QuizError",
    "bank",
    "draw",
    "load",
]
