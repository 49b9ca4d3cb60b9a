"""Diagnose whole programs by recording a program's calls and then diagnosing each Function.

The module ``watching`` runs these two steps for ``pytest --doctor`` and ``autograd-doctor run``.
"""
