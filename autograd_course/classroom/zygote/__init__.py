"""Inside the sandbox: a template with PyTorch imported, forked for each submission.

The template runs no submission's code and never holds one: what a child is asked and answers goes
over a socket of its own, which the template only passes on.
"""
