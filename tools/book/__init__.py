"""Write the course as a book for Sphinx, and check the resulting site.

Pages keep their paths in the repository, so a link has the same target in the book and on GitHub.
"""
