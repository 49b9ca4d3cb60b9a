"""Write the text of cards, steps and details for the page, the pictures and plain-text output."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from zlib import crc32

import torch

from autograd_course.visualize.flow import marks
from autograd_course.visualize.flow.trace import (
    Edge,
    Inside,
    Kind,
    Node,
    Reading,
    Saved,
    Source,
    Summaries,
    Trace,
)
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import Summary, listed, size

# --- The parts of a description -------------------------------------------------------------------
# A template has numbered slots (``"∂ {4}"``). Two traces of the same graph have the same templates,
# so a widget can replace all numbers in one frame.

Phase = Literal["start", "forward", "backward"]
_SLOT = re.compile(r"\{(\d+)\}")


When = Literal["value", "gradient"]
Row = tuple[str, str, When]


@dataclass(frozen=True)
class Map:
    """A heat map. ``code`` is a template for the output of :func:`marks.coded`."""

    code: str
    columns: int
    rows: int
    when: When


@dataclass(frozen=True)
class Card:
    """The text for a node: its card, its full name, and the rows of its details.

    A row has a term, a description, and the value or gradient that must be known before the row
    appears. ``mark`` is the template for the gradient's mark (:mod:`marks`), and ``source`` is the
    index of the node's source code in ``Script.sources``. ``opens`` is the group that a folded card
    shows. ``within`` lists the open groups around the card, innermost first. ``badge`` is the text
    on the border of the card.
    """

    kind: Kind
    title: str
    value: str
    gradient: str
    label: str
    details: tuple[Row, ...]
    mark: str
    badge: str = ""
    maps: tuple[Map, ...] = ()
    source: int | None = None
    opens: int | None = None
    within: tuple[int, ...] = ()

    @property
    def lines(self) -> tuple[str, str, str]:
        """The lines on the card. The symbol ∂ marks the gradient, so color is not the only cue."""
        return self.title, self.value, f"∂ {self.gradient}"


@dataclass(frozen=True)
class Step:
    """One step: its nodes, and the edges along which a value or gradient moves."""

    phase: Phase
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Script:
    """All text about a trace. ``texts`` contains the strings that fill the slots.

    ``factors`` and ``marks`` belong to the edges of the trace. ``groups`` contains the names of the
    groups, and ``sources`` contains the source code of the custom Functions.
    """

    title: str
    cards: tuple[Card, ...]
    factors: tuple[str, ...]
    marks: tuple[str, ...]
    steps: tuple[Step, ...]
    groups: tuple[str, ...]
    sources: tuple[Source, ...]
    texts: tuple[str, ...] = field(compare=False)

    def fill(self, template: str) -> str:
        """Fill the slots of a template with strings."""
        return _SLOT.sub(lambda slot: self.texts[int(slot[1])], template)


def shape(scripts: Sequence[Script]) -> int:
    """Return a checksum of the scripts, excluding the strings that fill the slots."""
    return crc32(repr([replace(each, texts=()) for each in scripts]).encode())


# --- Sentences about single facts -----------------------------------------------------------------

_LONGEST_TITLE = 17


def headline(trace: Trace) -> str:
    """Return a headline that names the traced function, the size of its graph, and the loss."""
    folded = [node.inside for node in trace.nodes if node.inside]
    computed = [node for node in trace.nodes if node.kind in ("op", "custom")]
    operations = len(computed) + sum(inside.operations for inside in folded)
    custom = sum(node.kind == "custom" for node in computed)
    custom += sum(len(inside.custom) for inside in folded)
    count = f"{operations} operation{'s' * (operations != 1)}"
    summed = " The loss is the sum of all elements of the output." if trace.summed else ""
    return f"Gradient flow through {trace.title}: {count}, {custom} custom.{summed}"


def results(node: Node) -> list[Row]:
    """For each output of a node, return rows with its value and its gradient."""
    pairs = list(zip(node.values, node.gradients, strict=True))
    rows: list[Row] = []
    for index, (value, gradient) in enumerate(pairs):
        which = f" {index}" if len(pairs) > 1 else ""
        about = f" ({_kind(value)})" if value else ""
        rows.append((f"value{which}", in_full(value) + about, "value"))
        rows.append((f"gradient ∂{which}", in_full(gradient), "gradient"))
    return rows


def _kind(value: Summary) -> str:
    """Name the dtype. Add the shape unless the description of the value begins with it."""
    return value.dtype if value.statistics else f"{value.size}, {value.dtype}"


def product(node: Node, edge: Edge) -> str:
    """Return ``grad_output × local = grad_input``, or the call to a custom ``backward``, as text.

    If the gradient of a PyTorch operation is not such a product, return only the gradient.
    """
    result = in_full(edge.gradient)
    if edge.factor is not None and len(node.gradients) == 1:
        return f"{in_full(node.gradients[0])} × {bracketed(in_full(edge.factor))} = {result}"
    if node.kind != "custom":
        return result
    shapes = (f"[{g.size}]" if g and g.shape else "scalar" if g else "none" for g in node.gradients)
    return f"backward({', '.join(shapes)}) → {result}"


def total(node: Node, uses: Sequence[Edge]) -> str:
    """Return the sum of a value's gradients as text, such as ``2 + 3 = 5``.

    For larger tensors, return ``""``. They are summarized by their norms, and the norm of a sum is
    not the sum of the norms. Also return ``""`` if the gradients do not add up.
    """
    parts = [edge.gradient for edge in uses if edge.gradient is not None]
    (whole,) = arriving(node)
    if len(parts) < 2 or whole is None or any(part.statistics for part in (*parts, whole)):
        return ""
    if overwritten(node, uses):
        return ""
    first, *others = (part.text for part in parts)
    return f"{' + '.join([first, *map(bracketed, others)])} = {whole.text}"


def overwritten(node: Node, uses: Sequence[Edge]) -> str:
    """Return the gradients that a value receives as text, if they do not add up to its gradient.

    A later ``backward`` has then written into one of them. Return ``""`` for larger tensors, whose
    numbers are unknown.
    """
    parts = [edge.gradient for edge in uses if edge.gradient is not None]
    (whole,) = arriving(node)
    if len(parts) < 2 or whole is None or any(it.values is None for it in (*parts, whole)):
        return ""
    numbers = [torch.tensor(it.values, dtype=torch.complex128) for it in (*parts, whole)]
    known = all(bool(it.isfinite().all()) for it in numbers)
    if len({it.shape for it in numbers}) > 1 or not known:
        return ""
    if torch.allclose(torch.stack(numbers[:-1]).sum(0), numbers[-1], rtol=2e-2, atol=1e-6):
        return ""
    return listed([part.text for part in parts])


def bracketed(text: str) -> str:
    """Parenthesize a negative number for use in a sum or a product."""
    return f"({text})" if text.startswith("-") else text


def arriving(node: Node) -> Summaries:
    """Return the gradients that later nodes sent to a node, before any hook changed them."""
    if not node.before:
        return node.gradients
    return tuple(was or now for was, now in zip(node.before, node.gradients, strict=True))


def kept(saved: Saved, names: Sequence[str]) -> str:
    """Describe a saved tensor. ``names`` contains the names of the node's arguments."""
    if saved.role == "output":
        return "the output"
    if saved.role == "intermediate":
        return "an intermediate result"
    if saved.argument is None:
        return "an input without gradient"
    return f"the input {names[saved.argument]}" if saved.argument < len(names) else "an input"


def sent(edge: Edge) -> str:
    """Format the gradient that flows back along an edge, and the local factor: ``4 (×4)``."""
    factor = times(edge)
    return each((edge.gradient,), "brief") + (f" ({factor})" if factor else "")


def times(edge: Edge) -> str:
    """Format the local factor of an edge (``×4``), or return ``""`` if there is none to show."""
    if edge.factor is None or not edge.factor.few:
        return ""
    return f"×{bracketed(edge.factor.short)}"


def on_card(summaries: Sequence[Summary | None], what: str, many: str) -> str:
    """Format up to two outputs side by side. If there are more, return their number."""
    return each(summaries, what) if len(summaries) <= 2 else f"{len(summaries)} {many}"


def each(summaries: Sequence[Summary | None], what: str) -> str:
    """Join one property of each summary."""
    texts = [getattr(summary, what) if summary else "none" for summary in summaries]
    return "; ".join(texts)


def in_full(summary: Summary | None) -> str:
    """Return the whole summary of a tensor as text."""
    return summary.text if summary else "none"


def shortened(name: str) -> str:
    """Truncate a long name at the start, because its end (``norm1.weight``) is more informative."""
    return name if len(name) <= _LONGEST_TITLE else f"…{name[1 - _LONGEST_TITLE :]}"


# --- The rows of a node's details -----------------------------------------------------------------

_MOST_PARAMETERS = 8
_MOST_USES = 12  # if a value has more uses than this, the details show only their number


def rows(trace: Trace, node: Node) -> list[Row]:
    """Describe a node in rows. Each row has a term, a description, and the value that it needs."""
    if node.kind == "output":
        return results(node)
    size: Row = ("norm of ∂", marks.size(node.gradients[0], trace.unit), "gradient")
    sums, sends = _sums(trace, node), _sends(trace, node)
    inside = _parameters(node.inside) if node.inside else []
    return [*results(node), size, *sums, *_changed(node), *sends, *_kept(trace, node), *inside]


def facts(trace: Trace, node: Node) -> list[Row]:
    """Describe facts that do not depend on numbers: hooks, folded operations and modules."""
    around = " in ".join(
        f"{trace.groups[group].name} ({trace.groups[group].kind})"
        for group in trace.around(node.group)
    )
    known = {
        "hooks": ", ".join(node.hooks),
        "contains": _holds(node.inside) if node.inside else "",
        "custom Functions": ", ".join(node.inside.custom) if node.inside else "",
        "folded": " → ".join(node.folded),
        "part of": around,
    }
    return [(term, text, "value") for term, text in known.items() if text]


def _sums(trace: Trace, node: Node) -> list[Row]:
    """For each output that is used at least twice, return the sum of its gradients."""
    found: list[Row] = []
    for output in range(len(node.gradients)):
        uses = [edge for edge in trace.out_of(node.id) if edge.output == output]
        if len(uses) < 2:
            continue
        which = f" {output}" if len(node.gradients) > 1 else ""
        if len(uses) > _MOST_USES:
            found.append((f"sum of ∂{which}", f"over {len(uses)} uses", "gradient"))
            continue
        parts = (f"{in_full(use.gradient)} (from {trace.nodes[use.target].name})" for use in uses)
        text = f"{' + '.join(parts)} = {in_full(arriving(node)[output])}"
        found.append((f"sum of ∂{which}", text, "gradient"))
    return found


def _changed(node: Node) -> list[Row]:
    return [
        ("∂ before → after hook", f"{in_full(was)} → {in_full(now)}", "gradient")
        for was, now in zip(node.before, node.gradients, strict=False)
        if was is not None
    ]


def _sends(trace: Trace, node: Node) -> list[Row]:
    return [
        (f"sends to {trace.nodes[edge.source].name}", product(node, edge), "gradient")
        for edge in trace.into(node.id)
    ]


def _kept(trace: Trace, node: Node) -> list[Row]:
    names: dict[int, str] = {e.argument: trace.nodes[e.source].name for e in trace.into(node.id)}
    arguments = [names.get(i, "") for i in range(max(names, default=-1) + 1)]
    found: list[Row] = []
    for index, saved in enumerate(node.saved):
        about = f"{saved.summary.dtype}, {size(saved.bytes, exact_below=10 * 1024)}"
        text = f"{saved.summary.text} ({about}): {kept(saved, arguments)}"
        found.append((f"saved tensor {index}", text, "value"))
    return found + [(f"ctx.{name}", text, "value") for name, text in node.attributes]


def _holds(inside: Inside) -> str:
    operations, parameters = inside.operations, len(inside.parameters)
    things = [f"{operations} operation{'s' * (operations != 1)}"]
    things += [f"{parameters} parameter{'s' * (parameters != 1)}"] if parameters else []
    return listed(things)


def _parameters(inside: Inside) -> list[Row]:
    shown = inside.parameters[:_MOST_PARAMETERS]
    found: list[Row] = [(f"∂ of {name}", in_full(gradient), "gradient") for name, gradient in shown]
    if more := len(inside.parameters) - len(shown):
        found.append(("∂ of the others", f"{more} more: unfold the module to see them", "gradient"))
    return found


# --- Cards, steps, and the full description -------------------------------------------------------

_MOST_GIVEN = 4  # the first sentence lists up to this many inputs; the others appear only on cards
_MOST_SUMMED = 4  # a sentence shows a sum of up to this many gradients; the details show more
_KINDS: dict[Kind, str] = {
    "input": "input",
    "op": "operation",
    "custom": "custom Function",
    "output": "output",
}


def script(trace: Trace) -> Script:
    """Write all text about a trace. Traces of the same graph differ only in ``texts``."""
    return _Writer(trace).write()


def describe(trace: Trace) -> str:
    """Describe a gradient flow step by step in plain text. Numbers have at most four digits.

    Args:
        trace: The flow, from :func:`trace_gradient_flow`.

    Returns:
        The title, followed by one line for each step of forward and backward.

    Raises:
        TraceError: The argument is not a trace.

    Example:
        >>> import torch
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import describe, trace_gradient_flow
        >>> print(describe(trace_gradient_flow(Square, torch.tensor(3.0))))
        Gradient flow through Square: 1 operation, 1 custom.
          Given: x = 3.
        Forward
          Square of x is 9.
          loss is 9.
        Backward
          loss starts with ∂ 1 (∂L/∂L).
          Square receives ∂ 1 and sends 6 (×6) to x.
          x has gradient ∂ 6.
    """
    if not isinstance(trace, Trace):
        raise TraceError(
            "describe needs a trace, such as trace_gradient_flow(loss, x), "
            f"not an object of type {type(trace).__name__}."
        )
    words = script(trace)
    lines = [words.title]
    for phase in ("start", "forward", "backward"):
        steps = [step for step in words.steps if step.phase == phase]
        lines += [] if phase == "start" else [phase.capitalize()]
        lines += [f"  {words.fill(step.text)}" for step in steps]
    return "\n".join(lines)


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.texts: list[str] = []
        self.sources: dict[Source, int] = {}

    def write(self) -> Script:
        trace = self.trace
        return Script(
            title=headline(trace),
            cards=tuple(self._card(node) for node in trace.nodes),
            factors=tuple(self._slot(times(edge)) for edge in trace.edges),
            marks=tuple(self._slot(marks.mark(edge.gradient, trace.unit)) for edge in trace.edges),
            steps=(self._start(), *self._forward(), *self._backward()),
            groups=tuple(group.name for group in trace.groups),
            sources=tuple(self.sources),
            texts=tuple(self.texts),
        )

    def _slot(self, text: str) -> str:
        self.texts.append(text)
        return f"{{{len(self.texts) - 1}}}"

    def _card(self, node: Node) -> Card:
        worst = next((g for g in node.gradients if marks.flag(g, self.trace.unit)), None)
        alarm = marks.flag(worst, self.trace.unit)
        gradient = on_card(node.gradients, "measure", "gradients")
        kind = _KINDS.get(node.kind, f"{node.op}, folded")
        return Card(
            kind=node.kind,
            title=f"▸ {shortened(node.name)}" if node.inside else shortened(node.name),
            value=self._slot(on_card(node.values, "short", "outputs")),
            gradient=self._slot(f"{gradient} {alarm}" if alarm else gradient),
            label=f"{node.name}, {kind}",
            details=tuple(self._details(node)),
            mark=self._slot(marks.mark(node.gradients[0], self.trace.unit)),
            badge=_badge(node),
            maps=(*self._maps(node.values, "value"), *self._maps(node.gradients, "gradient")),
            source=self._source(node.source),
            opens=node.inside.group if node.inside else None,
            within=tuple(self.trace.around(node.group)),
        )

    def _details(self, node: Node) -> list[Row]:
        varying = rows(self.trace, node)
        numbers = [(term, self._slot(text), when) for term, text, when in varying]
        return numbers + facts(self.trace, node)

    def _maps(self, readings: Summaries, when: When) -> tuple[Map, ...]:
        (reading, *more) = readings
        if more or not isinstance(reading, Reading) or not (grid := reading.heat):
            return ()
        return (Map(self._slot(marks.coded(grid)), grid.columns, grid.rows, when),)

    def _source(self, source: Source | None) -> int | None:
        return None if source is None else self.sources.setdefault(source, len(self.sources))

    def _start(self) -> Step:
        inputs = [node for node in self.trace.nodes if node.kind == "input"]
        given = [f"{node.name} = {self._value(node)}" for node in inputs[:_MOST_GIVEN]]
        rest = len(inputs) - len(given)
        given += [f"and {rest} more"] if rest else []
        return Step("start", tuple(node.id for node in inputs), (), f"Given: {', '.join(given)}.")

    def _forward(self) -> list[Step]:
        steps = []
        for node in self.trace.nodes:
            if node.kind != "input":
                sources = [self._name(edge.source) for edge in self.trace.into(node.id)]
                sources = list(dict.fromkeys(sources)) if node.inside else sources
                of = f"of {listed(sources)} " if sources else ""
                verb = "is" if node.kind == "output" else f"{of}is"
                text = f"{node.name} {verb} {self._value(node)}."
                steps.append(self._step("forward", node, text))
        return steps

    def _backward(self) -> list[Step]:
        nodes = (self.trace.nodes[node] for node in self.trace.backward)
        return [self._step("backward", node, self._turn(node)) for node in nodes]

    def _turn(self, node: Node) -> str:
        if node.kind == "input":
            gradient = self._slot(self._arrived(node) + self._why(node))
            return f"{node.name} has gradient ∂ {gradient}."
        gradient = self._slot(self._arrived(node))
        if node.kind == "output":
            why = "its sum is the loss" if self.trace.summed else "∂L/∂L"
            return f"{node.name} starts with ∂ {gradient} ({why})."
        sends = [
            f"{self._slot(sent(edge))} to {self._name(edge.source)}"
            for edge in self.trace.into(node.id)
        ]
        return f"{node.name} receives ∂ {gradient}" + (f" and sends {listed(sends)}." * bool(sends))

    def _why(self, node: Node) -> str:
        """Explain the gradient of an input that is used several times."""
        uses = self.trace.out_of(node.id)
        if len(uses) < 2:
            return ""
        if len(node.gradients) == 1 and (parts := overwritten(node, uses)):
            return f", although it receives {parts}: a backward has overwritten one of them"
        return f", the sum over its {len(uses)} uses"

    def _arrived(self, node: Node) -> str:
        """Describe the sum of the arriving gradients, its change by a hook, and any warning."""
        uses = self.trace.out_of(node.id)
        single = len(node.gradients) == 1 and node.kind != "output"
        text = each(arriving(node), "brief")
        if single and 1 < len(uses) <= _MOST_SUMMED:
            text = total(node, uses) or text
        if any(node.before):
            text += f" (a hook changes it to {each(node.gradients, 'brief')})"
        alarms = (marks.flag(gradient, self.trace.unit) for gradient in node.gradients)
        alarm = next((alarm for alarm in alarms if alarm), "")
        return f"{text} ({alarm})" if alarm else text

    def _step(self, phase: Phase, node: Node, text: str) -> Step:
        edges = [i for i, edge in enumerate(self.trace.edges) if edge.target == node.id]
        return Step(phase, (node.id,), tuple(edges), text)

    def _value(self, node: Node) -> str:
        return self._slot(each(node.values, "brief"))

    def _name(self, node: int) -> str:
        return self.trace.nodes[node].name


def _badge(node: Node) -> str:
    """Return the text on a card's border, which marks custom Functions and hooks."""
    inside = len(node.inside.custom) if node.inside else 0
    hooked = bool(node.hooks or any(node.before))
    if node.kind == "custom":
        return "ƒ + hook" if hooked else "ƒ custom"
    signs = ([f"ƒ {inside}"] if inside else []) + (["hook"] if hooked else [])
    return " + ".join(signs)
