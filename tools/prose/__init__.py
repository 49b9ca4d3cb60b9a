"""A linter for prose. The module :mod:`tools.prose.wording` contains our own rules."""
