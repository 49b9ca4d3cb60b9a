"""Diagnose whole programs: record a program's calls, then diagnose each Function on its calls.

The module ``watching`` runs these two steps for ``pytest --doctor`` and ``autograd-doctor run``.
"""
