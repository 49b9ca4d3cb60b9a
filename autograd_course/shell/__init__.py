"""Code that all commands share: exit codes, shell completion and exercise names."""
