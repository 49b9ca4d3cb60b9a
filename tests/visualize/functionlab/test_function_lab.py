"""The Function lab without a browser: real runs over x, their lines, and the descriptions."""

import base64
import gc
import io
import json
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from autograd_course.functions import ClippedReLU, Linear, ScaledSigmoid, Square, ToPolar
from autograd_course.visualize.functionlab.trace import Position
from autograd_course.visualize.functionlab.view import extent, spans
from autograd_course.visualize.functionlab.widget import FunctionLab, function_lab
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.slider import positions

pytestmark = pytest.mark.uncompiled


class Pinball(Function):
    @staticmethod
    def forward(ctx: Any, prediction: Tensor, target: Tensor, q: float) -> Tensor:
        ctx.save_for_backward(prediction, target)
        ctx.q = q
        error = target - prediction
        return torch.maximum(q * error, (q - 1) * error)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        prediction, target = ctx.saved_tensors
        return grad_output * ctx.q * torch.sign(prediction - target), None, None


class CalmSquare(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output.clamp(-1, 1)


class Deaf(Square):
    """Ignores grad_output, although a zero grad_output must give a zero gradient."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x


class Half(Function):
    """Branches, and is defined on only one half of the axis."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x < -1:
            raise ValueError("x is below -1")
        y = torch.sqrt(x + 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output / (2 * y)


class Rounded(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


class RaisesInBackward(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise ValueError("not today")


class ReturnsNone(Square):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        return None


class Separate(Function):
    """Uses setup_context with a separate forward, and a wrapped backward."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return y * grad_output


def at(lab: FunctionLab, x: float) -> Position:
    return lab.sweep.positions[lab.sweep.at(x)]


def frame(lab: FunctionLab, x: float) -> dict[str, Any]:
    return lab.scene["frames"][lab.sweep.at(x)]


def lines(lab: FunctionLab, x: float) -> list[tuple[str, str]]:
    """Return each line that ran at x, and the values that were new after it."""
    rows = [row for part in lab.scene["source"]["parts"] for row in part["rows"]]
    texts = ["".join(text for _, text in row).strip() for row in rows]
    return [(texts[row], note) for row, _, note in frame(lab, x)["steps"]]


# The numbers are autograd's


@pytest.mark.parametrize(
    ("fn", "parameters"),
    [
        (Square, ()),
        (ScaledSigmoid, (2.0, 1.5)),
        (ClippedReLU, (2.0,)),
        (torch.sin, ()),
        (lambda x, y: ToPolar.apply(x, y)[1], (torch.tensor(1.0),)),
    ],
    ids=["square", "sigmoid", "clipped relu", "sin", "angle"],
)
def test_every_value_and_slope_is_the_one_of_a_plain_run(fn: Any, parameters: Any) -> None:
    lab = function_lab(fn, *parameters)

    call = fn.apply if isinstance(fn, type) else fn
    given = [p.double() if isinstance(p, Tensor) else p for p in parameters]
    assert 51 <= len(lab.sweep.positions) <= 101
    for place in lab.sweep.positions:
        x = torch.tensor(place.x, dtype=torch.float64, requires_grad=True)
        y = call(x, *given)
        (slope,) = torch.autograd.grad(y, x)
        assert place.run is not None
        assert (place.run.y, place.slope) == (y.item(), slope.item())
        assert place.verdict in ("agree", "kink")


def test_where_a_backward_is_wrong_is_seen_and_said() -> None:
    lab = function_lab(Pinball, torch.tensor(1.0), 0.9, x=2.0)

    assert [at(lab, x).verdict for x in (-4, 0.9, 1, 1.1, 4)] == [
        "agree",
        "agree",
        "kink",
        "differ",
        "differ",
    ]
    assert frame(lab, 2)["sentence"] == (
        "✗ The slopes differ at prediction = 2: 0.9 from backward, 0.1 from finite differences."
    )
    assert lab.scene["overview"] == (
        "For prediction from -4 to 4: ✗ the slopes differ from 1.1 to 4; ◇ kink at 1."
    )
    assert lab.scene["bands"]["differ"] == [pytest.approx((1.05, 4))]


def test_a_kink_shows_both_slopes_and_the_one_that_was_chosen() -> None:
    lab = function_lab(ClippedReLU, 2.0, x=2.0)

    assert frame(lab, 2)["sentence"] == (
        "◇ Forward has a kink at x = 2: slope 1 on the left, 0 on the right. "
        "Backward gives slope 0."
    )
    assert frame(lab, 2)["sides"] == pytest.approx([1, 0])
    assert (2.0, 0.0) in lab.scene["slopes"]["chosen"]


class SteepReLU(ClippedReLU):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return 3 * grad_output, None


def test_at_a_kink_a_slope_that_is_on_neither_side_nor_between_is_wrong() -> None:
    lab = function_lab(SteepReLU, 2.0, x=2.0)

    assert frame(lab, 2)["sentence"] == (
        "✗ The slopes differ at x = 2: 3 from backward, 1 | 0 from finite differences."
    )


def test_a_jump_is_no_slope_and_breaks_the_curve() -> None:
    lab = function_lab(Rounded, x=0.5)

    assert frame(lab, 0.5)["sentence"] == (
        "◇ Forward jumps at x = 0.5 and has no slope there. Backward gives slope 1."
    )
    assert frame(lab, 0.5)["sides"] is None
    breaks = [x for x, y in lab.sweep.curve if y is None]
    assert breaks == pytest.approx([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])


def test_a_vertical_tangent_is_no_slope() -> None:
    root = function_lab(lambda x: x.sign() * x.abs().sqrt(), x=0.0)

    assert at(root, 0).verdict == "steep"
    assert at(root, 1).verdict == "agree"


def test_where_forward_raises_the_curve_is_left_open_and_the_sentence_said() -> None:
    lab = function_lab(Half)

    assert frame(lab, -2)["sentence"] == (
        'Half raised ValueError at `raise ValueError("x is below -1")`: x is below -1.'
    )
    assert lines(lab, -2)[-1] == ('raise ValueError("x is below -1")', "raises ValueError")
    assert {y for x, y in lab.scene["curve"] if x < -1} == {None}
    assert at(lab, -0.5).verdict == "agree"


def test_a_backward_that_raises_is_told() -> None:
    lab = function_lab(RaisesInBackward)

    assert "The backward of RaisesInBackward raised ValueError" in frame(lab, 1)["sentence"]
    assert (frame(lab, 1)["y"], frame(lab, 1)["slope"]) == (1, None)


def test_a_backward_that_returns_none_has_slope_0() -> None:
    lab = function_lab(ReturnsNone)

    assert frame(lab, 1)["sent"] == "grad_output ∂ 1 → backward → ∂ None"
    assert at(lab, 1).verdict == "differ"


# grad_output


def test_a_backward_that_is_not_linear_shows_under_another_grad_output() -> None:
    lab = function_lab(CalmSquare, x=1.5)
    assert at(lab, 1.5).verdict == "agree"

    lab.choice = {"parameters": {"grad_output": 2.0}}

    assert frame(lab, 1.5)["sent"] == "grad_output ∂ 2 → backward → ∂ 3; slope = 3 / 2 = 1.5"
    assert at(lab, 1.5).verdict == "differ"


def test_of_a_staircase_a_surrogate_is_not_called_wrong() -> None:
    lab = function_lab(Rounded, x=0.4)

    assert at(lab, 0.4).verdict == "surrogate"
    assert frame(lab, 0.4)["sentence"] == (
        "◇ Forward is flat at x = 0.4, but backward gives slope 1: "
        "right only as a surrogate gradient."
    )
    assert lab.scene["overview"].endswith(
        "forward is a step function: right only as a surrogate gradient."
    )
    assert lab.scene["bands"]["differ"] == []


def test_where_forward_has_a_slope_somewhere_a_wrong_gradient_is_called_wrong() -> None:
    passing = function_lab(lambda x: x.relu() + (x - x.detach()), x=-1.0)  # forgets the mask

    assert at(passing, -1.0).verdict == "differ"


@pytest.mark.parametrize(("fn", "verdict"), [(Square, "agree"), (Deaf, "differ")])
def test_nothing_in_must_be_nothing_out(fn: Any, verdict: str) -> None:
    lab = function_lab(fn, x=1.5)

    lab.choice = {"parameters": {"grad_output": 0.0}}

    assert at(lab, 1.5).verdict == verdict


# The lines that ran


def test_the_lines_of_a_run_with_what_each_changed() -> None:
    lab = function_lab(ScaledSigmoid, 2.0, 1.5)

    assert [note for _, note in lines(lab, 0)] == [
        "x = 0, gain = 2, slope = 1.5",
        "y = 1",
        "saves y",
        "ctx.gain = 2, ctx.slope = 1.5",
        "returns 1",
        "grad_output = 1",
        "y = 1",
        "returns 0.75, None, None",
    ]
    assert lines(lab, 0)[1][0] == "y = gain * torch.sigmoid(slope * x)"
    assert [phase for _, phase, _ in frame(lab, 0)["steps"]] == ["forward"] * 5 + ["backward"] * 3


def test_another_x_may_take_another_branch() -> None:
    def bent(x: Tensor) -> Tensor:
        if x > 0:
            return x * 2
        return x

    lab = function_lab(bent)

    assert lines(lab, 1)[-1] == ("return x * 2", "returns 2")
    assert lines(lab, -1)[-1] == ("return x", "returns -1")


def test_docstrings_and_decorators_are_not_shown() -> None:
    shown = [row for row, _ in lines(function_lab(Half), 1)]

    assert shown[0] == "def forward(ctx: Any, x: Tensor) -> Tensor:"
    assert not any(row.startswith(("@", '"""')) for row in shown)


def test_setup_context_and_a_wrapped_backward_are_followed() -> None:
    lab = function_lab(Separate, x=0.0)

    headings = [part["heading"] for part in lab.scene["source"]["parts"]]
    assert headings == ["Separate.forward", "Separate.setup_context", "Separate.backward"]
    assert [note for _, note in lines(lab, 0)] == [
        "x = 0",
        "returns 1",
        "inputs = 0, output = 1",
        "saves output",
        "grad_output = 1",
        "y = 1",
        "returns 1",
    ]


def test_a_callable_is_shown_with_the_function_inside() -> None:
    def twice(x: Tensor) -> Tensor:
        return 2 * Square.apply(x)

    lab = function_lab(twice, x=3.0)

    headings = [part["heading"] for part in lab.scene["source"]["parts"]]
    assert headings == ["twice", "Square.forward", "Square.backward"]
    assert lines(lab, 3)[-1][1] == "returns 12"


def test_what_ctx_holds() -> None:
    lab = function_lab(Pinball, torch.tensor(1.0), 0.9, x=2.0)

    assert frame(lab, 2)["kept"] == [
        ("saved tensor 0", "2", "the input prediction, float64, 8 bytes"),
        ("saved tensor 1", "1", "the input target, float64, 8 bytes"),
        ("ctx.q", "0.9", "attribute"),
    ]
    (mask,) = frame(function_lab(ClippedReLU), 1)["kept"]
    assert mask == ("saved tensor 0", "True", "an intermediate result, bool, 1 byte")
    assert "the output" in frame(function_lab(ScaledSigmoid), 1)["kept"][0][2]


def test_a_loop_does_not_make_a_story_without_end() -> None:
    def powers(x: Tensor) -> Tensor:
        y = x
        for _ in range(100):
            y = y * 1.01
        return y

    assert len(lines(function_lab(powers), 1)) == 60


def test_beside_another_tracer_the_source_has_no_running_lines() -> None:
    def debugger(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        lab = function_lab(Square)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)

    assert lines(lab, 1) == []
    assert "The lab cannot record lines" in lab.scene["source"]["notice"]
    assert at(lab, 1).slope == 2


def test_no_tracer_stays_behind() -> None:
    before = sys.gettrace()

    function_lab(RaisesInBackward)

    assert sys.gettrace() is before


def test_source_that_is_not_to_be_had_is_said() -> None:
    space: dict[str, Any] = {"Square": Square}
    exec("def hidden(x):\n    return Square.apply(x)", space)

    lab = function_lab(space["hidden"])

    assert "The source of hidden is not available." in lab.scene["source"]["notice"]
    assert lines(lab, 1)[0][0].startswith("def forward")


@pytest.mark.parametrize(
    "row", ["    return f'{x}'  # why", "def f(x): pass", "x = (1 +", '"""open', "", "é = '∂'"]
)
def test_spans_of_a_row_are_the_row(row: str) -> None:
    (found,) = spans([row])

    assert "".join(text for _, text in found) == row


# The choice of function and parameters


def test_without_a_function_the_reference_functions_are_offered() -> None:
    lab = function_lab()

    for name in lab.scene["functions"]:
        lab.choice = {"function": name}
        assert lab.scene["notice"] == ""
        assert lab.scene["answers"]["function"] == name
        assert not any(place.verdict == "differ" for place in lab.sweep.positions)


def test_right_and_wrong_are_met_at_the_same_parameters() -> None:
    lab = function_lab({"right": Square, "wrong": CalmSquare})
    lab.choice = {"parameters": {"grad_output": 3.0}}
    lab.choice = {"function": "wrong"}

    assert lab.scene["answers"] == {"function": "wrong", "parameters": {"grad_output": 3.0}}
    assert at(lab, 2).verdict == "differ"


def test_a_list_is_named_by_its_functions() -> None:
    assert function_lab([Square, CalmSquare, Square]).scene["functions"] == [
        "Square",
        "CalmSquare",
        "Square 2",
    ]


@pytest.mark.colab
def test_a_parameter_moves_the_curve_on_axes_that_stay() -> None:
    lab = function_lab(ScaledSigmoid, 2.0, 1.5)
    before = lab.scene["ranges"]

    lab.choice = {"parameters": {"gain": 1.5}}

    assert lab.scene["ranges"] == before
    assert frame(lab, 0)["value"] == "0.75"
    assert {s["name"]: s["values"][s["index"]] for s in lab.scene["sliders"]}["gain"] == 1.5


def test_defaults_of_forward_have_sliders_and_integers_stay_whole() -> None:
    def power(x: Tensor, n: int = 3, scale: float = 1.0, flag: bool = True) -> Tensor:
        return scale * x**n

    sliders = {s["name"]: s for s in function_lab(power).scene["sliders"]}

    assert list(sliders) == ["n", "scale", "grad_output"]
    assert sliders["n"]["labels"] == ["0", "1", "2", "3", "4", "5", "6"]


@pytest.mark.colab
@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"function": "Cube"}, "There is no function 'Cube' in this lab; choose one of: Square."),
        ({"parameters": {"gain": 1.0}}, r"gain = 1.0 cannot be set in Square.*grad_output"),
        ({"parameters": {"grad_output": float("nan")}}, "pass a finite number"),
    ],
)
def test_a_wrong_choice_is_answered_with_a_notice(choice: dict[str, Any], said: str) -> None:
    lab = function_lab(Square)
    before = lab.scene["frames"]

    lab.choice = choice

    assert pytest.raises(TraceError, match=said).matches(TraceError(lab.scene["notice"]))
    assert lab.scene["answers"] == choice
    assert lab.scene["frames"] == before


@pytest.mark.colab
def test_x_off_the_sweep_becomes_a_place_of_it() -> None:
    lab = function_lab(Square)

    lab.x = 0.123
    assert (lab.position.x, lab.position.slope) == (0.123, 0.246)
    lab.x = 5.0
    assert lab.scene["positions"][-1] == 5
    with pytest.raises(TraceError, match="finite number"):
        lab.x = float("inf")


# What remains in the notebook


@pytest.mark.colab
def test_a_saved_notebook_has_the_picture_and_the_account() -> None:
    lab = function_lab(Pinball, torch.tensor(1.0), 0.9, x=2.0)
    data, _ = lab._repr_mimebundle_()

    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert picture.size[0] > 1000
    assert len(lab.png) < 40_000
    assert data["text/plain"] == repr(lab)
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_account() -> None:
    assert repr(function_lab(CalmSquare, x=2.0)) == (
        "Function lab: CalmSquare(x = 2)\n"
        "forward returns 4\n"
        "  def forward(ctx: Any, x: Tensor) -> Tensor:  # x = 2\n"
        "      ctx.save_for_backward(x)  # saves x\n"
        "      return x * x  # returns 4\n"
        "  def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # grad_output = 1\n"
        "      (x,) = ctx.saved_tensors  # x = 2\n"
        "      return 2 * x * grad_output.clamp(-1, 1)  # returns 4\n"
        "ctx stores saved tensor 0 = 2 (the input x, float64, 8 bytes)\n"
        "grad_output ∂ 1 → backward → ∂ 4\n"
        "✓ The slopes agree at x = 2: 4 from backward, 4 from finite differences.\n"
        "For x from -4 to 4: ✓ the slopes agree."
    )


@pytest.mark.parametrize("fn", [Square, Half, Rounded, RaisesInBackward, torch.relu])
def test_picture_and_account_are_the_same_every_time(fn: Any) -> None:
    one, other = function_lab(fn), function_lab(fn)

    assert repr(one) == repr(other)
    assert one.png == other.png


@pytest.mark.colab
def test_what_is_sent_to_the_page_is_json_and_small() -> None:
    for fn in (Square, Half, Rounded, lambda x: 1 / x):
        state = function_lab(fn).get_state()
        text = json.dumps(state["scene"], allow_nan=False)
        assert len(text) < 120_000


# It leaves no trace behind


def test_nothing_of_the_graph_stays_alive() -> None:
    kept: list[weakref.ref[Any]] = []

    class Watched(Square):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            kept.extend((weakref.ref(ctx), weakref.ref(x)))
            return Square.forward(ctx, x)

    gc.collect()
    gc.disable()
    try:
        lab = function_lab(Watched)
        assert len(kept) > 100
        assert {ref() for ref in kept} == {None}
    finally:
        gc.enable()
    assert lab.sweep


def test_the_caller_is_not_disturbed(capsys: pytest.CaptureFixture[str]) -> None:
    def noisy(x: Tensor, w: Tensor, mask: Tensor) -> Tensor:
        print("called")
        w.data.mul_(2)
        mask.mul_(2)
        return torch.nn.functional.dropout(x * w * mask).sum() + torch.rand(())

    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, dtype=torch.float64)
    state, version = torch.get_rng_state(), w._version

    with torch.no_grad():
        function_lab(noisy, w, mask)
        assert not torch.is_grad_enabled()

    assert torch.equal(torch.get_rng_state(), state)
    assert (w.item(), w.grad, w._version) == (2, None, version)
    assert mask.tolist() == [1, 1]
    assert capsys.readouterr().out == ""


def test_randomness_is_the_same_at_every_place() -> None:
    lab = function_lab(lambda x: x * torch.rand(()))

    assert len({place.slope for place in lab.sweep.positions}) == 1
    assert {place.verdict for place in lab.sweep.positions} == {"agree"}


# If something cannot be shown, a sentence says so


def raises(x: Tensor) -> Tensor:
    raise KeyError("weights")


@pytest.mark.colab
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: function_lab(3.0), r"needs a Function class or a callable, not 3.0"),
        (lambda: function_lab(torch.ones(1)), r"function_lab\(Square\), not"),
        (lambda: function_lab({}), "You passed no function; pass at least one"),
        (lambda: function_lab(None, 2.0), "need a function of your own"),
        (lambda: function_lab(Pinball), "Pinball needs a value for 'target'"),
        (lambda: function_lab(raises), "raises raised KeyError at `raise KeyError"),
        (
            lambda: function_lab(Linear, torch.ones(2, 3)),
            r"Linear raised \w+ at .*; x is a scalar.*pass a callable .* lambda x: Linear.apply",
        ),
        (
            lambda: function_lab(lambda x: x.expand(3)),
            r"one number against another, but function returned a tensor of shape \(3,\); pass",
        ),
        (lambda: function_lab(ToPolar, torch.tensor(1.0)), "ToPolar returned 2 outputs"),
        (lambda: function_lab(lambda x: x.item()), "an object of type float"),
        (
            lambda: function_lab(lambda x: x.detach()),
            "Autograd does not connect the output of function to x",
        ),
        (lambda: function_lab(Square, x=float("nan")), "x must be a finite number, such as x=2.0"),
        (lambda: function_lab(Square, x=torch.ones(2)), "x must be a finite number"),
        (
            lambda: function_lab(Square, ranges={"y": (0, 1)}),
            "ranges contains 'y'.*: x, grad_output",
        ),
        (lambda: function_lab(Square, ranges={"x": (1, 0)}), "the lower one first"),
        (lambda: function_lab(Square, names=["a", "b"]), "names has 2 entries for 1 inputs"),
    ],
)
def test_what_cannot_be_shown(make: Any, said: str) -> None:
    with pytest.raises(TraceError, match=said) as caught:
        make()

    assert "\n" not in str(caught.value)


# Axes


@pytest.mark.parametrize("value", [0.0, 0.123, 7.3, -9.9])
@pytest.mark.parametrize("reach", [0.7, 3.0, 18.0, 250.0])
def test_positions_are_round_and_hold_the_value(value: float, reach: float) -> None:
    low, high = min(-reach, value), max(reach, value)
    found = positions(low, high, value, most=100)

    assert found == sorted(found)
    assert (found[0], found[-1]) == (low, high)
    assert value in found
    assert 40 <= len(found) <= 104


def test_a_pole_does_not_flatten_the_rest() -> None:
    low, high = extent([1 / x for x in torch.linspace(-3, 3, 100).tolist()])

    assert -30 < low < -1
    assert 1 < high < 30


def test_equal_values_but_for_rounding_are_a_flat_line() -> None:
    assert extent([0.25, 0.25 + 1e-12]) == (-0.75, 1.25 + 1e-12)


COMPILED_BEFORE = """
import torch
from autograd_course.functions import Square
from autograd_course.visualize import function_lab

torch.compile(torch.sin, backend="eager")(torch.ones(2))
print(function_lab(Square).scene["source"]["notice"])
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tracing is safe from Python 3.12 on")
@pytest.mark.thorough
def test_after_torch_compile_no_line_is_traced_because_that_can_hang() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILED_BEFORE],
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert "after torch.compile has run" in done.stdout, done.stderr
