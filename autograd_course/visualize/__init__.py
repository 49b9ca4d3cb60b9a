"""Looking at gradients.

A trace is plain data that real hooks caught in a real graph; a picture draws it; a widget is a
picture with controls. Arrows go one way: ``tracing → trace → wording, layout → picture → widget``.
"""

from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.tracing import trace_gradient_flow
from autograd_course.visualize.flow.widget import GradientFlow, gradient_flow
from autograd_course.visualize.flow.wording import describe
from autograd_course.visualize.function_lab.tangent import Tangent, tangent
from autograd_course.visualize.kit.errors import TraceError

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
