"""The memory timeline shows which tensors autograd saves for backward.

It also shows which node saves each tensor, and how long the tensor stays saved.

``ledger → hooks, isolation → trace → describe → view → figure, widget``
"""
