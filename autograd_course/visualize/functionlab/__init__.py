"""The Function lab shows a Function's source lines, its curve, and the tangent from backward.

``subject, lines → trace → describe → view → figure, widget``. ``tangent`` shows a single point.
"""
