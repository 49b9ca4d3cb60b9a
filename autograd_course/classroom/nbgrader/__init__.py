"""A course folder for nbgrader, and nbgrader's autograding in our sandbox."""
