"""An autograder for Gradescope: the zip, and what it runs there."""
