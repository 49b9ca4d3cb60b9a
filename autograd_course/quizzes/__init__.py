"""The knowledge checks: one plain file a lesson, and its reading."""

from autograd_course.quizzes.quiz import Option, Question, Quiz, QuizError
from autograd_course.quizzes.reading import QUIZZES, load

__all__ = ["QUIZZES", "Option", "Question", "Quiz", "QuizError", "load"]
