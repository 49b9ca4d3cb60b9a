"""Memory timeline: what autograd keeps from forward for backward, by whom, and until when.

``ledger, hooks, watch → tracing → trace → wording, groups → story, figure → widget``
"""
