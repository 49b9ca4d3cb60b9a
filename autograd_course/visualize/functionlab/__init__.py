"""Function lab: one Function with its lines, its curve and the tangent from its backward.

``subject, lines → trace → describe → view → figure, widget``; ``tangent`` is a lab at one point.
"""
