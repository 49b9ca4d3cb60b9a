"""What people read: a page for each student and one for the class, each a file of its own."""

from autograd_course.classroom.reports.pages.class_page import class_page
from autograd_course.classroom.reports.pages.feedback import feedback, feedback_name

__all__ = ["class_page", "feedback", "feedback_name"]
