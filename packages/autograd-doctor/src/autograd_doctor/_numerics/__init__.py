"""Numbers: finite differences, comparisons, projections. This code never runs the user's code."""
