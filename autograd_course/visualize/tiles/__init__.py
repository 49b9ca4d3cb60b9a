"""Attention tiles: how tiled attention processes the score matrix, and its memory for each tile.

``trace → describe → view → figure, widget``
"""
