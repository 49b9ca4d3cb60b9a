"""An autograder for Gradescope: the zip file, and the program that runs there."""
