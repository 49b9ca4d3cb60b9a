"""Read knowledge checks and votes from one file per lesson and a question bank for the course."""

from autograd_course.quizzes.bank import bank, draw
from autograd_course.quizzes.quiz import COURSE, Option, Question, Quiz, QuizError, Vote
from autograd_course.quizzes.reading import QUIZZES, load

__all__ = [
    "COURSE",
    "QUIZZES",
    "Option",
    "Question",
    "Quiz",
    "QuizError",
    "Vote",
    "bank",
    "draw",
    "load",
]
