"""The processes inside the sandbox: a template with PyTorch imported, and a fork per submission.

The template never runs a submission's code and never contains a submission. A child receives
questions and sends answers over its own socket. The template only passes this socket on.
"""
