"""Phrases: sizes, and what a kept tensor is called."""

from collections.abc import Sequence

from autograd_course.visualize.memory.trace import Event, Kept

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Write a number of bytes with at most four significant digits: ``192 KiB``."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return "1 byte" if count == 1 else f"{count} bytes"
    return f"{value:.4g} {_UNITS[unit]}"


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


def listed(items: Sequence[str]) -> str:
    """Join with commas and a final ``and``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def verdict(peak: int, budget: int) -> str:
    """Say whether a peak stays within a budget."""
    return "✓ fits" if peak <= budget else f"✗ {size(peak - budget)} over"
