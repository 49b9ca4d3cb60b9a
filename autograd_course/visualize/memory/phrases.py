"""Phrases: sizes, and what a kept tensor is called."""

from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.memory.trace import Event, Kept


def who(event: Event) -> str:
    """Name an event's node, with the module in which it ran."""
    return f"{event.name} ({event.module})" if event.module else event.name


def its(item: Kept) -> str:
    """Say what a tensor is to its owner."""
    return item.role if item.how == "attribute" else f"its {what(item)}"


def what(item: Kept) -> str:
    """Say in one word what a tensor is."""
    if item.how == "attribute":
        return item.role
    return "mask" if item.dtype == "bool" and item.role == "intermediate" else item.role


def shape(item: Kept) -> str:
    """Write a shape as ``2×3``."""
    return "×".join(map(str, item.shape)) or "scalar"


def verdict(peak: int, budget: int) -> str:
    """Say whether a peak stays within a budget."""
    return "✓ fits" if peak <= budget else f"✗ {size(peak - budget)} over"
