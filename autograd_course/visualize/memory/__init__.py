"""Memory timeline: what autograd keeps from forward for backward, by whom, and until when.

``ledger → hooks, isolation → trace → describe → view → figure, widget``
"""
