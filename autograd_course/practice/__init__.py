"""Commands for exercise files in an editor: ``grade``, ``watch`` and ``reset``."""
