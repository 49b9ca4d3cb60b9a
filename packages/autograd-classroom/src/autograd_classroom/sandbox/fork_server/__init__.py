"""The processes inside the sandbox: a template that has imported PyTorch, and its children.

Each child is a fork of the template and runs one submission. The template itself never receives or
runs a submission. A child receives questions and sends answers over its own socket. The template
only passes this socket on to the child.
"""
