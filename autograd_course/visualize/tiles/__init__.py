"""The attention tiles show how tiled attention processes the score matrix tile by tile.

They also show the memory that each tile needs.

``trace → describe → view → figure, widget``
"""
