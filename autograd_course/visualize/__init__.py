"""Visualizers for gradients. Each figure shows a real run.

Each visualizer has its own folder and three layers. A *trace* is plain data that hooks record
during a real run. A *picture* draws the trace, and a *widget* adds controls to the picture. All
visualizers share the code in ``kit``. Each name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_course.visualize.flow.compare import FlowComparison, compare_flows
    from autograd_course.visualize.flow.describe import describe
    from autograd_course.visualize.flow.record import trace_gradient_flow
    from autograd_course.visualize.flow.trace import Trace
    from autograd_course.visualize.flow.widget import GradientFlow, gradient_flow
    from autograd_course.visualize.functionlab.tangent import Tangent, tangent
    from autograd_course.visualize.functionlab.widget import FunctionLab, function_lab
    from autograd_course.visualize.jacobian.widget import JacobianView, jacobian_view
    from autograd_course.visualize.kit.errors import TraceError
    from autograd_course.visualize.memory.trace import MemoryTrace, trace_memory
    from autograd_course.visualize.memory.widget import MemoryTimeline, memory_timeline
    from autograd_course.visualize.quiz.widget import KnowledgeCheck, knowledge_check
    from autograd_course.visualize.stelab.widget import STELab, ste_lab
    from autograd_course.visualize.tiles.widget import AttentionTiles, attention_tiles

__all__ = [
    "AttentionTiles",
    "FlowComparison",
    "FunctionLab",
    "GradientFlow",
    "JacobianView",
    "KnowledgeCheck",
    "MemoryTimeline",
    "MemoryTrace",
    "STELab",
    "Tangent",
    "Trace",
    "TraceError",
    "attention_tiles",
    "compare_flows",
    "describe",
    "function_lab",
    "gradient_flow",
    "jacobian_view",
    "knowledge_check",
    "memory_timeline",
    "ste_lab",
    "tangent",
    "trace_gradient_flow",
    "trace_memory",
]

_HOME = {
    "flow.compare": ("FlowComparison", "compare_flows"),
    "flow.describe": ("describe",),
    "flow.record": ("trace_gradient_flow",),
    "flow.trace": ("Trace",),
    "flow.widget": ("GradientFlow", "gradient_flow"),
    "functionlab.tangent": ("Tangent", "tangent"),
    "functionlab.widget": ("FunctionLab", "function_lab"),
    "jacobian.widget": ("JacobianView", "jacobian_view"),
    "kit.errors": ("TraceError",),
    "memory.trace": ("MemoryTrace", "trace_memory"),
    "memory.widget": ("MemoryTimeline", "memory_timeline"),
    "quiz.widget": ("KnowledgeCheck", "knowledge_check"),
    "stelab.widget": ("STELab", "ste_lab"),
    "tiles.widget": ("AttentionTiles", "attention_tiles"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE})
