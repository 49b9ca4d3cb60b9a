"""Jacobian view: forward's Jacobian next to backward's, and the differences between them.

``trace → describe → view → figure, widget``. The doctor computes the Jacobians themselves.
"""
