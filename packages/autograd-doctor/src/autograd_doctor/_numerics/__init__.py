"""Finite differences, comparisons and projections. This code never runs the user's code."""
