"""Code that all commands share, such as exit codes, shell completion and exercise names."""
