"""Memory timeline: what autograd saves for backward, which node saves it, and how long.

``ledger → hooks, isolation → trace → describe → view → figure, widget``
"""
