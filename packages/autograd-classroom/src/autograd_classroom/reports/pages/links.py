"""Links to the course's web pages about a lesson or a rule."""

from autograd_course.grader.links import BRANCH, REPOSITORY, to_lesson, to_rule

__all__ = ["BRANCH", "REPOSITORY", "to_lesson", "to_rule"]
