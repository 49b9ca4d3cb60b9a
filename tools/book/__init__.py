"""The book: the course as Sphinx reads it, and a check of the site that comes of it.

Pages keep their paths in the repository, so that a link means in the book what it means on GitHub.
"""
