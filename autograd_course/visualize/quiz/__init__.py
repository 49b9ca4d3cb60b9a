"""Knowledge checks: the questions of a lesson. The notebook shows them and saves the answers.

``quizzes (data) → markdown → describe → widget``. The grader saves the answers.
"""
