"""Code that all commands share: exit codes, completion, and the names of the exercises."""
