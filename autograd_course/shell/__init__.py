"""What every command shares: exit codes, completion, and names that need no PyTorch."""
