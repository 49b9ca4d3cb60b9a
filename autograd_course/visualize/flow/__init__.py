"""Gradient flow: how values go forward through a graph, and how gradients go back.

``record`` creates a ``trace``, and ``grouping`` folds it. ``describe`` writes its texts, ``layout``
computes all positions, and ``svg`` and ``figure`` draw them. A ``view`` contains all of this for
one function. ``widget`` shows one view, and ``compare`` shows several.
"""
