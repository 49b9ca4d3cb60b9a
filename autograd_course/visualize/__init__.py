"""Looking at gradients.

A trace is plain data that real hooks caught in a real graph; a picture draws it; a widget is a
picture with controls. Arrows go one way: ``tracing → trace → wording, layout → picture → widget``.
"""

from autograd_course.visualize.tangent import Tangent, tangent
from autograd_course.visualize.trace import Trace, TraceError
from autograd_course.visualize.tracing import trace_gradient_flow
from autograd_course.visualize.widget import GradientFlow, gradient_flow
from autograd_course.visualize.wording import describe

__all__ = [
    "GradientFlow",
    "Tangent",
    "Trace",
    "TraceError",
    "describe",
    "gradient_flow",
    "tangent",
    "trace_gradient_flow",
]
