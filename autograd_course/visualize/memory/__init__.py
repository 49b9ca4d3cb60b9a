"""Memory timeline: the tensors that autograd saves for backward, by which node and for how long.

``ledger → hooks, isolation → trace → describe → view → figure, widget``
"""
