"""Whole programs: record their calls, then diagnose each Function on these calls.

``watching`` runs these steps in order, for ``pytest --doctor`` and ``autograd-doctor run``.
"""
