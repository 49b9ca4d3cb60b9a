"""Run the user's code, in all the ways that a probe asks for, and note what happened."""
