"""The commands ``grade``, ``watch`` and ``reset``, for exercises in an editor."""
