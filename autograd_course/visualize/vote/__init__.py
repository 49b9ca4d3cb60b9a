"""Votes on what the next cell will show. A vote is saved in the same way as an answer.

``quizzes (data) → quiz.markdown → describe → widget``. The grader saves the vote.
"""
