"""STE lab: a quantizer, the gradient that replaces its derivative, and nets that train with it.

``estimators → trace, training_comparison → describe → view → figure, widget``
"""
