"""Inside the sandbox: a template with PyTorch imported, forked for each submission.

The template never runs a submission's code and never contains a submission. A child receives
questions and sends answers over its own socket, which the template only passes on.
"""
