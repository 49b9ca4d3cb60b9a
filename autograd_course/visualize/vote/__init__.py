"""Votes: what do you expect of the next cell? One click, remembered like the answer to a question.

``quizzes (data) → quiz.markdown → describe → widget``; the grader keeps what was chosen.
"""
