"""Gradient flow: how values go forward through a graph, and gradients back.

``tracing → trace → folding → wording, layout → picture → scene → widget``; tracing rests on
``values``, ``gradients``, ``modules`` and ``opened``.
"""
