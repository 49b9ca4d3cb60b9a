"""What the gradients should be: from differences, from a reference, or from a surrogate."""
