"""A linter for prose: see :mod:`tools.prose.wording` for our rules."""
