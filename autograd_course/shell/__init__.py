"""Code that all commands share: exit codes, shell completion, and the names of the exercises."""
