"""Numbers: finite differences, comparisons, projections. Nothing here runs the user's code."""
