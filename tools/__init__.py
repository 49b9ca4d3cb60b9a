"""Everything derived in the course is built, and compared, here.

One function, :func:`tools.derived.derive`, says what the derived files must
hold; ``build`` writes that and executes the notebooks, ``check`` compares it with what is there.
"""
