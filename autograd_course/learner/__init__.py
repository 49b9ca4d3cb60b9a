"""The learner's progress and the file that stores it."""
