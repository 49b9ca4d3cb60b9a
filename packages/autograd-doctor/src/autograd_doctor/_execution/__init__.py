"""Runs the user's code and restores everything afterwards."""
