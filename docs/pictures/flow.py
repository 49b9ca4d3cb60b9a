"""An animated SVG of the gradient flow through two custom Functions, from a real trace."""

from dataclasses import replace
from html import escape

import torch
from torch import Tensor

from autograd_course.functions import Multiply, Square
from autograd_course.visualize import gradient_flow
from autograd_course.visualize.flow.describe import Script, describe, product, script, total
from autograd_course.visualize.flow.layout import ARROW, Box, Curve, Layout, layout
from autograd_course.visualize.flow.svg import path, svg
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.widget import GradientFlow
from docs.pictures.story import Story
from docs.pictures.timeline import css

GROUNDS = {"light": "#ffffff", "dark": "#0d1117"}  # the backgrounds of GitHub's pages
CAPTION, BASELINE = 30.0, 14.0  # pixels: height of the line below the drawing, and of its baseline
STILL = (
    "Values run forward. Gradients run back, times each edge's local factor; "
    "where a value is used twice, they add up."
)
# Without animation, the drawing shows its final state and the sentence above.
STYLE = """
.agf-edge{stroke:var(--agf-line);stroke-width:1.4;stroke-dasharray:none}
.agf-arrow{fill:var(--agf-line)}
.agf-track,.agf-gauge{display:none}
.run{fill:none;stroke-width:3.4;stroke-dasharray:100}
.run.forward{stroke:var(--agf-value)}.run.backward{stroke:var(--agf-gradient)}
.head{fill:var(--agf-gradient)}
.rim{fill:none;stroke:var(--agf-ink);stroke-width:2.4}
.run,.head,.rim,.told{opacity:0}.told[data-step=still]{opacity:1}
.agf-picture .told{font-size:14px}
.told .forward{fill:var(--agf-value);font-weight:600}
.told .backward{fill:var(--agf-gradient);font-weight:600}
"""


def loss(x: Tensor, y: Tensor) -> Tensor:
    """Return x²·y + x, which uses x twice."""
    multiplied: Tensor = Multiply.apply(Square.apply(x), y)  # type: ignore[no-untyped-call]
    return multiplied + x


def flow() -> GradientFlow:
    """Return the widget, which the book shows in place of the picture."""
    return gradient_flow(loss, torch.tensor(3.0), torch.tensor(2.0), sweep=False)


def traced() -> Trace:
    """Trace one forward and one backward pass of the loss."""
    return flow().trace


def animated(trace: Trace, scheme: str) -> str:
    """Return the SVG for GitHub's ``light`` or ``dark`` pages."""
    words, story = in_products(trace), Story(script(trace))
    drawn = layout(trace, words)
    drawn = replace(drawn, height=drawn.height + CAPTION)
    style = f"<style>{STYLE}{css(story.changes(), story.seconds)}</style>"
    below = "".join([style, *map(_ways, range(len(drawn.curves)), drawn.curves), *_rims(drawn)])
    still = svg(words, drawn, f"{STILL}\n{describe(trace)}")
    edges, card, cards = still.partition('<g class="agf-card')
    cards = cards.removesuffix("</svg>")
    return _around(f"{edges}{below}{card}{cards}{_captions(words, drawn)}</svg>", drawn, scheme)


def _around(picture: str, drawn: Layout, scheme: str) -> str:
    """Wrap the picture in an SVG that gives its style sheet the colors of a page."""
    size = f'width="{drawn.width:g}" height="{drawn.height:g}"'
    page = f'data-jp-theme-light="{"true" if scheme == "light" else "false"}"'
    ground = f'style="--jp-layout-color0:{GROUNDS[scheme]}"'
    box = f'viewBox="0 0 {drawn.width:g} {drawn.height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} {page} {ground}>{picture}</svg>\n'


def in_products(trace: Trace) -> Script:
    """Describe the trace, with products on its edges, and sums for values that are used twice.

    An edge shows ``grad_output × factor = gradient``, or nothing if it has no factor.
    """
    words = script(trace)
    factors = tuple(
        product(trace.nodes[edge.target], edge) if words.fill(factor) else ""
        for edge, factor in zip(trace.edges, words.factors, strict=True)
    )
    cards = tuple(
        replace(card, gradient=total(node, trace.out_of(node.id)) or card.gradient)
        if node.kind != "output"
        else card
        for node, card in zip(trace.nodes, words.cards, strict=True)
    )
    return replace(words, factors=factors, cards=cards)


def _ways(edge: int, curve: Curve) -> str:
    """Draw an edge twice: as the path of the value, and as the path back of the gradient."""
    runs = "".join(
        f'<path class="run {way}" data-edge="{edge}" pathLength="100" d="{path(curve.points)}"/>'
        for way in ("forward", "backward")
    )
    x, y = curve.points[0]
    head = f"M{x:g} {y:g}l{ARROW:g} {-ARROW / 2:g}v{ARROW:g}z"
    return f'{runs}<path class="head" data-edge="{edge}" d="{head}"/>'


def _rims(drawn: Layout) -> list[str]:
    return [_rim(node, box) for node, box in enumerate(drawn.boxes)]


def _rim(node: int, box: Box) -> str:
    corner = f'x="{box.x - 4:g}" y="{box.y - 4:g}"'
    size = f'width="{box.width + 8:g}" height="{box.height + 8:g}"'
    return f'<rect class="rim" data-node="{node}" {corner} {size} rx="12"/>'


def _captions(words: Script, drawn: Layout) -> str:
    """Return the sentences of the steps and the final sentence, all in the same place."""
    told = {str(n): _phase(s.phase) + escape(words.fill(s.text)) for n, s in enumerate(words.steps)}
    told["still"] = escape(STILL)
    place = f'x="{drawn.width / 2:g}" y="{drawn.height - BASELINE:g}"'
    return "".join(
        f'<text class="told" data-step="{step}" {place}>{text}</text>'
        for step, text in told.items()
    )


def _phase(phase: str) -> str:
    return "" if phase == "start" else f'<tspan class="{phase}">{phase.capitalize()}:</tspan> '
