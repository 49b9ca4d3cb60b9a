"""Votes on what the next cell will show. A vote is saved like the answer to a question.

``quizzes (data) → quiz.markdown → describe → widget``; the grader saves the vote.
"""
