"""Attention tiles: how tiled attention processes the score matrix, and the memory for each tile.

``trace → describe → view → figure, widget``
"""
