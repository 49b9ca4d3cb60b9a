"""Jacobian view: forward's Jacobian next to backward's, and where they differ.

``trace → describe → view → figure, widget``; the Jacobians themselves are the doctor's data.
"""
