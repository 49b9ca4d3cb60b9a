"""What a learner has done: the progress file, and what it says."""
