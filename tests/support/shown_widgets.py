"""Calls that create each kind of widget, as in a notebook. Tests use them as rows of tables."""

from dataclasses import dataclass
from functools import cache

from anywidget import AnyWidget

SETUP = """
import torch
from torch import nn
from autograd_course.lesson import vote
from autograd_course.functions import ClippedReLU, Square
from autograd_course.visualize import *

def loss(x, y):
    return Square.apply(x) + ClippedReLU.apply(y, 6.0)

class HalfSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (1 - y) * grad_output

class CalmSquare(Square):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

torch.manual_seed(0)
net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
attend = {"softmax": lambda x: (x @ x.T).softmax(-1) @ x, "linear": lambda x: x @ x.T @ x}
qkv = torch.randn(3, 8, 4)
"""


@dataclass(frozen=True)
class Shown:
    """A widget in the tables of tests that try all widgets.

    ``root`` is the selector of its view, and ``opens`` is the text in this view when it opens.
    ``control`` is the selector of the control that ``key`` moves. ``says`` is the text that a
    screen reader then reads. ``visible`` is the text that the view then shows, if it differs.
    """

    call: str
    root: str
    opens: str
    control: str
    key: str
    says: str
    visible: str = ""


SHOWN = {
    "gradient-flow": Shown(
        "gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))",
        ".agf", "x has gradient ∂ 4.", 'input[aria-label="step"]', "End", "Backward ",
    ),
    "folded-flow": Shown(
        'gradient_flow(net, torch.randn(2, 4), names=["x"], depth=1)',
        ".agf", "x has gradient", 'input[aria-label="step"]', "End", "Backward ",
    ),
    "compared-flows": Shown(
        'compare_flows({"once": torch.sin, "twice": lambda x: x.sin().sin()}, torch.tensor(1.0))',
        ".agf", "input has gradient ∂ 0.5403", 'input[aria-label="step"]', "End", "once Backward ",
        "input has gradient",
    ),
    "function-lab": Shown(
        'function_lab({"Square": Square, "CalmSquare": CalmSquare}, x=1.5)',
        ".ac-lab", "Backward · return gradient",
        'input[aria-label="step"]', "Home", "Forward · def forward",
    ),
    "ste-lab": Shown(
        'ste_lab("sign", "clipped")',
        ".ac-ste", "step 150 of 150", 'input[aria-label="x"]', "End", "Forward maps x = 3 to 1.",
        "x = 3",
    ),
    "jacobian-view": Shown(
        "jacobian_view(HalfSoftmax, qkv[0, :3])",
        ".ac-jac", "differences", "[role=application]", "ArrowRight", "] finite differences ",
        "∂x[",
    ),
    "memory-timeline": Shown(
        "memory_timeline(attend, torch.randn(64, 32), budget=8192)",
        ".ac-memory", "16 KiB saved", 'input[aria-label="step"]', "End", "0 bytes saved",
    ),
    "attention-tiles": Shown(
        "attention_tiles(*qkv, block=(2, 2))",
        ".ac-tiles", "m rises from", 'input[aria-label="step"]', "End", "End ",
    ),
    "knowledge-check": Shown(
        'knowledge_check("01")',
        ".ac-quiz", "Question 1 Choose one.",
        'button[aria-label="Next question"]', "Enter", "Question 2 of 13, not answered",
    ),
    "vote": Shown(
        'vote("02", "saved-as-attribute")',
        ".ac-vote", "People say: “PyTorch notices",
        ".ac-vote-option", "Enter", "You voted for a, and your vote is saved",
    ),
}  # fmt: skip


@cache
def built() -> dict[str, AnyWidget]:
    """Build each widget in this process."""
    names: dict[str, object] = {}
    exec(SETUP, names)
    return {name: eval(shown.call, names) for name, shown in SHOWN.items()}
