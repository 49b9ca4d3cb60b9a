"""The zip file that an instructor uploads to Gradescope, and the grading program inside it."""
