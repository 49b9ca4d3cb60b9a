"""Gradient flow: how values go forward through a graph, and gradients back.

``record`` makes a ``trace``, ``grouping`` folds it. ``describe`` puts it in words and ``layout``
says where everything stands; ``svg`` and ``figure`` draw that. A ``view`` holds all of it for one
function, and ``widget`` shows one view, ``compare`` several.
"""
