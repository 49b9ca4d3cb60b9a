"""STE lab: a quantizer, the gradient that stands in for its derivative, and what trains by it.

``estimators → trace, training_comparison → describe → view → figure, widget``
"""
