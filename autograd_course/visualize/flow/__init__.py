"""Gradient flow: how values go forward through a graph, and gradients back.

``tracing → trace → wording, layout → picture → widget``
"""
