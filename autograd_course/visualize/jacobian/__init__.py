"""Jacobian view: forward's Jacobian beside backward's, and where they differ.

``capture → Jacobians (the doctor's data) → condense, structure, wording → figure → widget``
"""
