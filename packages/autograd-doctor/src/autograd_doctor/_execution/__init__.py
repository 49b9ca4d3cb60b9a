"""Run the user's code, and restore all state afterwards."""
