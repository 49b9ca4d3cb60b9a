"""Working through exercise files in an editor: graded from a shell, watched, put back."""
