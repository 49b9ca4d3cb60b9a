"""A course folder for nbgrader, and a step that autogrades in our sandbox."""
