"""The learner's progress: the file, and its contents."""
