"""Gradient flow: how values flow forward through a graph, and how gradients flow back.

``record`` creates a ``trace``, and ``grouping`` joins nodes into groups. ``describe`` writes the
text, ``layout`` computes all positions, and ``svg`` and ``figure`` draw the picture. A ``view``
combines these parts for one function. ``widget`` shows one view, and ``compare`` shows several
views.
"""
