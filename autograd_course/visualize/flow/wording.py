"""Telling a trace: its cards and steps, and the account of them all."""

from autograd_course.visualize.flow import heat, marks
from autograd_course.visualize.flow.details import facts, rows
from autograd_course.visualize.flow.phrases import (
    arriving,
    each,
    headline,
    on_card,
    sent,
    shortened,
    times,
    total,
)
from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.flow.script import Card, Map, Phase, Row, Script, Step, When
from autograd_course.visualize.flow.trace import Kind, Node, Source, Summaries, Trace
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import listed

_MOST_GIVEN = 4  # inputs that the first sentence lists; the others have their cards
_MOST_SUMMED = 4  # uses of a value that a sentence adds up; more stand in the details
_KINDS: dict[Kind, str] = {
    "input": "input",
    "op": "operation",
    "custom": "custom Function",
    "output": "output",
}


def script(trace: Trace) -> Script:
    """Put a trace into words. Scripts of traces of the same graph are equal but for ``texts``."""
    return _Writer(trace).write()


def describe(trace: Trace) -> str:
    """Tell a trace step by step as plain text, numbers with at most four significant digits."""
    if not isinstance(trace, Trace):
        raise TraceError(
            "describe tells a trace, such as trace_gradient_flow(loss, x), "
            f"not what is of type {type(trace).__name__}."
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
        return (Map(self._slot(heat.coded(grid)), grid.columns, grid.rows, when),)

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
        gradient = self._slot(self._arrived(node))
        if node.kind == "output":
            why = "its sum is the loss" if self.trace.summed else "∂L/∂L"
            return f"{node.name} starts with ∂ {gradient} ({why})."
        if node.kind == "input":
            uses = len(self.trace.out_of(node.id))
            summed = f", the sum over its {uses} uses" if uses > 1 else ""
            return f"{node.name} has gradient ∂ {gradient}{summed}."
        sends = [
            f"{self._slot(sent(edge))} to {self._name(edge.source)}"
            for edge in self.trace.into(node.id)
        ]
        return f"{node.name} receives ∂ {gradient}" + (f" and sends {listed(sends)}." * bool(sends))

    def _arrived(self, node: Node) -> str:
        """Write what arrives: as a sum, with what a hook made of it, and what is alarming."""
        uses = self.trace.out_of(node.id)
        single = len(node.gradients) == 1 and node.kind != "output"
        text = each(arriving(node), "brief")
        if single and 1 < len(uses) <= _MOST_SUMMED:
            text = total(node, uses) or text
        if any(node.before):
            text += f", which a hook makes {each(node.gradients, 'brief')}"
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
    """Return the signs on a card's rim: a custom Function, or some inside, and a hook."""
    inside = len(node.inside.custom) if node.inside else 0
    hooked = bool(node.hooks or any(node.before))
    if node.kind == "custom":
        return "ƒ + hook" if hooked else "ƒ custom"
    signs = ([f"ƒ {inside}"] if inside else []) + (["hook"] if hooked else [])
    return " + ".join(signs)
