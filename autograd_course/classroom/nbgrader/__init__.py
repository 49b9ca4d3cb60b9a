"""A course folder for nbgrader, and nbgrader's autograding behind our wall."""
