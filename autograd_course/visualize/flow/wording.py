"""Telling a trace: its cards, details and steps, and the account of them all."""

from autograd_course.visualize.flow.phrases import (
    each,
    headline,
    listed,
    on_card,
    product,
    results,
    sent,
    shortened,
    times,
    told,
)
from autograd_course.visualize.flow.script import Card, Phase, Row, Script, Step
from autograd_course.visualize.flow.trace import Kind, Node, Trace

_MOST_GIVEN = 4  # inputs that the first sentence lists; the others have their cards
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

    def write(self) -> Script:
        trace = self.trace
        return Script(
            title=headline(trace),
            cards=tuple(self._card(node) for node in trace.nodes),
            factors=tuple(self._slot(times(edge)) for edge in trace.edges),
            steps=(self._start(), *self._forward(), *self._backward()),
            texts=tuple(self.texts),
        )

    def _slot(self, text: str) -> str:
        self.texts.append(text)
        return f"{{{len(self.texts) - 1}}}"

    def _card(self, node: Node) -> Card:
        value = self._slot(on_card(node.values, "short", "outputs"))
        gradient = self._slot(on_card(node.gradients, "measure", "gradients"))
        return Card(
            kind=node.kind,
            title=shortened(node.name),
            value=value,
            gradient=gradient,
            label=f"{node.name}, {_KINDS[node.kind]}",
            details=tuple(self._details(node)),
        )

    def _details(self, node: Node) -> list[Row]:
        rows = [(name, self._slot(text), when) for name, text, when in results(node)]
        uses = [edge for edge in self.trace.out_of(node.id) if node.kind != "output"]
        if len(uses) > 1:
            parts = (f"{told(use.gradient)} (from {self._name(use.target)})" for use in uses)
            rows.append(("adds up", self._slot(" + ".join(parts)), "gradient"))
        if node.kind != "output":
            for edge in self.trace.into(node.id):
                sends = f"sends to {self._name(edge.source)}"
                rows.append((sends, self._slot(product(node, edge)), "gradient"))
        for index, saved in enumerate(node.saved):
            about = f"{saved.summary.dtype}, {saved.bytes} bytes"
            text = f"{self._slot(saved.summary.text)} ({about})"
            rows.append((f"saved tensor {index}", text, "value"))
        rows += [(f"ctx.{name}", self._slot(text), "value") for name, text in node.attributes]
        return rows + ([("folded", " → ".join(node.folded), "value")] if node.folded else [])

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
                verb = "is" if node.kind == "output" else f"of {listed(sources)} is"
                text = f"{node.name} {verb} {self._value(node)}."
                steps.append(self._step("forward", node, text))
        return steps

    def _backward(self) -> list[Step]:
        nodes = (self.trace.nodes[node] for node in self.trace.backward)
        return [self._step("backward", node, self._turn(node)) for node in nodes]

    def _turn(self, node: Node) -> str:
        gradient = self._slot(each(node.gradients, "brief"))
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
        return f"{node.name} receives ∂ {gradient} and sends {listed(sends)}."

    def _step(self, phase: Phase, node: Node, text: str) -> Step:
        edges = [i for i, edge in enumerate(self.trace.edges) if edge.target == node.id]
        return Step(phase, (node.id,), tuple(edges), text)

    def _value(self, node: Node) -> str:
        return self._slot(each(node.values, "brief"))

    def _name(self, node: int) -> str:
        return self.trace.nodes[node].name
