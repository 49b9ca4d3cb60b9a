"""Whole programs: record their calls, and then diagnose each Function on these calls.

``watching`` defines the order of these steps, for ``pytest --doctor`` and ``autograd-doctor run``.
"""
