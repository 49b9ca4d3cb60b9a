"""Function lab: one Function under the hand, with its curve and the tangent of its backward.

``subject, lines → trace → describe → view → figure, widget``; ``tangent`` is a lab at one point.
"""
