"""Whole programs: their calls are recorded, and then each Function is diagnosed on them.

``watching`` holds the order of these steps, for ``pytest --doctor`` and ``autograd-doctor run``.
"""
