"""Function lab: one Function with its source lines, its curve, and the tangent from backward.

``subject, lines → trace → describe → view → figure, widget``. ``tangent`` is a lab at one point.
"""
