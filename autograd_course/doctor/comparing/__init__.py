"""Gradients beside the truth: whether they agree, where not, and how to write the numbers."""
