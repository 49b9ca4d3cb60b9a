"""Votes on what the next cell will show. A vote is saved like an answer to a question.

``quizzes (data) → quiz.markdown → describe → widget``. The grader saves the vote.
"""
