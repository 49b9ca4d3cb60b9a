"""Knowledge checks: the questions of a lesson, answered in the notebook and remembered.

``quizzes (data) → markdown → describe → widget``; what was answered is kept by the grader.
"""
