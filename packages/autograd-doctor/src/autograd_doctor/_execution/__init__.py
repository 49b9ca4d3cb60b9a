"""Run the user's code, and restore everything afterwards."""
