"""Where on the web the course says more: a lesson, a rule's page."""

from autograd_course.grader.links import BRANCH, REPOSITORY, to_lesson, to_rule

__all__ = ["BRANCH", "REPOSITORY", "to_lesson", "to_rule"]
