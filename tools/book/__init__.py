"""Convert the course to a book, which Sphinx builds, and check the resulting site.

Each page has the same path in the book as in the repository, so links lead to the same pages in the
book and on GitHub.
"""
