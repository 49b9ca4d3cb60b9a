"""Attention tiles: how tiled attention goes through the score matrix, and what it holds meanwhile.

``trace → describe → view → figure, widget``
"""
