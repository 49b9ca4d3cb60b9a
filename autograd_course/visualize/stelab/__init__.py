"""The STE lab shows a quantizer, its surrogate gradient, and networks that train with it.

``estimators → trace, training_comparison → describe → view → figure, widget``
"""
