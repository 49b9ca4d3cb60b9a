"""Build and check all files that are derived from the course's sources.

The function :func:`tools.derived.derive` computes the contents of the derived files. The command
``build`` writes these files and executes the notebooks, and ``check`` compares the contents with
the files on disk.
"""
