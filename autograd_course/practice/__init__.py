"""The commands ``grade``, ``watch`` and ``reset``, for working on exercises in an editor."""
