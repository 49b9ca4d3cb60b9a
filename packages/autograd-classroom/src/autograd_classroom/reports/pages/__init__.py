"""HTML pages for each student and for the class. Each page is a self-contained file."""

from autograd_classroom.reports.pages.class_page import class_page
from autograd_classroom.reports.pages.feedback import feedback, feedback_name

__all__ = ["class_page", "feedback", "feedback_name"]
