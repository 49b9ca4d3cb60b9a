"""Runs the user's code, and leaves everything as it was."""
