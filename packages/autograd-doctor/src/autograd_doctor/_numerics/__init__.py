"""Finite differences, comparisons and projections.

This code runs the user's code only through callables that other modules pass.
"""
