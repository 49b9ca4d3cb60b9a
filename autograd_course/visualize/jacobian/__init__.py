"""The Jacobian view shows the Jacobians of forward and of backward, and their difference.

``trace → describe → view → figure, widget``. The doctor computes the Jacobians themselves.
"""
