"""The code in the child process. It runs a learner's cells and answers the judge's questions."""
