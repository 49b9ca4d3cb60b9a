"""Attention tiles: how tiled attention goes through the score matrix, and what it holds meanwhile.

``tracing → trace → wording → story → figure, widget``
"""
