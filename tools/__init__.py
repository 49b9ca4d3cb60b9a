"""Build and check all derived files of the course.

The function :func:`tools.derived.derive` computes the contents of the derived files. ``build``
writes them and executes the notebooks, and ``check`` compares them with the files on disk.
"""
