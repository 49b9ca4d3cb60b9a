"""Finite differences, comparisons and projections.

These modules run the user's code only through callables that other modules pass to them.
"""
