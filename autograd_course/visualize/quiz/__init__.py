"""Knowledge checks. A notebook shows the questions of a lesson, and the grader saves the answers.

``quizzes (data) → markdown → describe → widget``
"""
