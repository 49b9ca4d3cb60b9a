"""Write reports for people and for programs. All data in the reports comes from the gradebook."""

from autograd_classroom.reports.document import as_json_document
from autograd_classroom.reports.gradescope import gradescope_results
from autograd_classroom.reports.junit import as_junit
from autograd_classroom.reports.table import as_csv, as_grade_table

__all__ = ["as_csv", "as_grade_table", "as_json_document", "as_junit", "gradescope_results"]
