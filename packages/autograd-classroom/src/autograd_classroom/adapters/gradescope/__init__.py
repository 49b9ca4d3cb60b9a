"""An autograder for Gradescope: the zip file to upload, and the program that it runs."""
