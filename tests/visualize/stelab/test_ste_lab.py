"""The STE lab without a browser: real Functions, real runs, and what they leave behind."""

import asyncio
import base64
import gc
import json
import re
import weakref
from typing import Any

import pytest
import torch
from flows import RoundSTE
from torch import Tensor
from torch.autograd import Function

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import BUNDLES
from autograd_course.visualize.stelab import training_comparison
from autograd_course.visualize.stelab.estimators import QUANTIZERS, SURROGATES, Quantize
from autograd_course.visualize.stelab.figure import look
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, points_of
from autograd_course.visualize.stelab.training_comparison import Net, points
from autograd_course.visualize.stelab.widget import STELab, ste_lab

pytestmark = pytest.mark.slow


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for only a few steps, for tests in which the result does not matter."""
    monkeypatch.setattr(training_comparison, "STEPS", 6)


def estimate(lab: STELab, name: str) -> Estimate:
    return next(each for each in lab.trace.estimates if each.name == name)


def gap(lab: STELab, name: str, width: float) -> float:
    return estimate(lab, name).gaps[WIDTHS.index(width)]


def between_jumps(count: int = 400) -> Tensor:
    return torch.linspace(-2.987, 2.983, count, dtype=torch.float64)


# The Functions


@pytest.mark.parametrize("quantizer", QUANTIZERS.values(), ids=lambda q: q.name)
def test_a_quantizer_jumps_where_it_says_and_by_as_much(quantizer: Any) -> None:
    x = between_jumps()
    jumps = torch.tensor(quantizer.jumps, dtype=x.dtype)

    counted = (x[:, None] > jumps).double().sum(1) * quantizer.step

    assert torch.allclose(quantizer.quantize(x) - quantizer.quantize(x)[0], counted - counted[0])


@pytest.mark.parametrize("surrogate", SURROGATES.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("quantizer", QUANTIZERS.values(), ids=lambda q: q.name)
def test_backward_is_the_surrogates_slope_times_grad_output(quantizer: Any, surrogate: Any) -> None:
    x, g = between_jumps().requires_grad_(), torch.sin(7 * between_jumps())

    y = Quantize.apply(x, quantizer, surrogate)
    (gradient,) = torch.autograd.grad(y, x, g)

    assert torch.equal(y, quantizer.quantize(x))
    assert torch.allclose(gradient, surrogate.slope(x, quantizer) * g)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("identity", lambda x: x),
        ("clipped", lambda x: x.clamp(-1, 1)),
        ("tanh", torch.tanh),
        ("sigmoid", lambda x: 2 * torch.sigmoid(4 * x)),
    ],
)
def test_a_surrogate_of_sign_is_the_derivative_of_a_known_function(name: str, line: Any) -> None:
    x = between_jumps().requires_grad_()

    (exact,) = torch.autograd.grad(line(x).sum(), x)

    assert torch.allclose(SURROGATES[name].slope(x, QUANTIZERS["sign"]), exact)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_uniform_with_clipped_is_what_pytorch_calls_fake_quantize(bits: int) -> None:
    x = torch.linspace(-2.987, 2.983, 301).requires_grad_()
    n = 2**bits
    theirs = torch.fake_quantize_per_tensor_affine(x, 4 / n, 0, -n // 2, n // 2 - 1)
    ours = Quantize.apply(x, QUANTIZERS[f"uniform-{bits}"], SURROGATES["clipped"])

    assert torch.equal(ours, theirs)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (ours, theirs)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_value_and_gradient_keep_dtype_and_shape(dtype: torch.dtype) -> None:
    x = torch.zeros(2, 1, 3, dtype=dtype, requires_grad=True)

    y = Quantize.apply(x, QUANTIZERS["uniform-3"], SURROGATES["sigmoid"])
    (gradient,) = torch.autograd.grad(y.sum(), x)

    assert (y.dtype, y.shape, gradient.dtype, gradient.shape) == (dtype, x.shape, dtype, x.shape)


# What is shown


def test_the_numbers_shown_are_autograds() -> None:
    lab = ste_lab("uniform-3", "tanh", 0.4)
    shown = lab.sweep["estimates"][lab.trace.names().index("tanh")]
    for x, value, gradient in zip(
        lab.sweep["xs"], lab.sweep["staircases"][0]["values"], shown["gradients"], strict=True
    ):
        leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        y = Quantize.apply(leaf, QUANTIZERS["uniform-3"], SURROGATES["tanh"])
        y.backward()
        assert float(value) == y.item()
        assert float(gradient) == pytest.approx(leaf.grad.item(), abs=5e-3)


def test_seen_from_a_distance_a_staircase_has_the_surrogates_slope() -> None:
    assert gap(ste_lab("sign"), "clipped", 1.0) == pytest.approx(0, abs=1e-6)
    assert gap(ste_lab("round"), "identity", 0.5) == pytest.approx(0, abs=1e-6)
    assert gap(ste_lab("floor"), "identity", 0.5) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_the_true_derivative_is_zero_and_only_zero_agrees_with_it(quantizer: str) -> None:
    lab = ste_lab(quantizer)

    slopes = lab.trace.staircases[0].slopes[0]
    assert {slope for slope in slopes if slope is not None} == {0.0}
    assert gap(lab, "zero", 0.0) == 0
    assert all(gap(lab, name, 0.0) > 0.1 for name in SURROGATES if name != "zero")


def test_what_a_surrogate_climbs_too_much_is_told() -> None:
    lab = ste_lab("sign", "identity")

    assert estimate(lab, "identity").climb == pytest.approx(6)
    assert "From -3 to 3, the staircase rises by 2 and the surrogate by 6." in repr(lab)


@pytest.mark.parametrize(
    ("surrogate", "x", "said"),
    [
        ("clipped", 0.4, "to ∂ 1: the gradient passes unchanged."),
        ("clipped", 1.5, "to ∂ 0: the gradient is blocked."),
        ("tanh", 1.0, "to ∂ 0.42: the gradient is reduced."),
        ("sigmoid", 0.0, "to ∂ 2: the gradient is amplified."),
    ],
)
def test_what_becomes_of_a_gradient_is_told(
    surrogate: str, x: float, said: str, short_training: None
) -> None:
    assert said in repr(ste_lab("sign", surrogate, x))


def test_a_curve_lifts_the_pen_at_a_jump_and_drops_what_lies_on_a_line() -> None:
    assert points_of([0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 1, 1, 1, 1]) == (
        (0, 0),
        (3, 0),
        (4, None),
        (4, 1),
        (7, 1),
    )


# Training


def test_the_task_is_a_checkerboard() -> None:
    positions, labels = points()

    assert torch.equal(labels > 0, (positions[:, 0] > 0) == (positions[:, 1] > 0))
    assert 0.4 < labels.mean().item() < 0.6


@pytest.mark.parametrize("place", ["activations", "weights"])
def test_without_a_gradient_only_what_lies_behind_the_quantizer_learns(place: Any) -> None:
    net = Net(lambda x: Quantize.apply(x, QUANTIZERS["sign"], SURROGATES["zero"]), place, 0)
    before = net.parameters.detach().clone()

    net.step(*points())

    moved = net.parameters.detach() != before
    weights, biases = [*range(32), *range(48, 304), *range(320, 336)], [*range(304, 320), 336]
    if place == "activations":
        assert not moved[:320].any()
        assert moved[320:].any()
    else:
        assert not moved[weights].any()
        assert moved[biases].all()


def test_the_steps_are_adams() -> None:
    ours = Net(torch.tanh, "activations", 0)
    theirs = Net(torch.tanh, "activations", 0)
    adam = torch.optim.Adam([theirs.parameters], lr=0.03)
    x, labels = points()
    for _ in range(5):
        ours.step(x, labels)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(theirs(x), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()

    assert torch.allclose(ours.parameters, theirs.parameters)


def test_with_sign_the_clipped_surrogate_learns_and_neither_zero_nor_identity_does() -> None:
    lab = ste_lab("sign")
    lab.train()

    accuracy = {run.name: run.accuracy for run in lab.comparison.runs}
    assert max(accuracy["zero"], accuracy["identity"]) < 0.93
    assert min(accuracy["clipped"], accuracy["tanh"], accuracy["sigmoid"]) > 0.96


def test_training_repeats(short_training: None) -> None:
    runs = [
        training_comparison.train_to_the_end(ste_lab()._estimators, "activations", 3)
        for _ in range(2)
    ]

    assert runs[0] == runs[1]


def test_without_an_event_loop_training_is_done_at_once(short_training: None) -> None:
    lab = ste_lab()

    lab.training = True

    assert not lab.training
    assert lab.progress["step"] == 6


@pytest.mark.colab
def test_on_an_event_loop_training_arrives_piece_by_piece_and_can_be_stopped() -> None:
    async def stopped_after_some() -> tuple[list[int], list[int], bool]:
        lab, steps = ste_lab(), []
        lab.observe(lambda change: steps.append(change["new"]["step"]), "progress")
        lab.training = True
        assert steps == []
        while len(steps) < 4:
            await asyncio.sleep(0.001)
        lab.training = False
        before = list(steps)
        await asyncio.sleep(0.05)
        return before, steps, lab.training

    before, steps, training = asyncio.run(stopped_after_some())

    assert before[:4] == [3, 6, 9, 12]
    assert (steps, training) == (before, False)


def test_training_on_the_loop_ends_by_itself_and_where_the_picture_ends(
    short_training: None,
) -> None:
    async def trained() -> STELab:
        lab = ste_lab()
        lab.training = True
        while lab.training:
            await asyncio.sleep(0.001)
        return lab

    lab = asyncio.run(trained())
    assert lab.comparison == lab._finished()


def test_a_training_that_was_left_for_another_start_is_not_taken_for_it(
    short_training: None,
) -> None:
    async def left() -> STELab:
        lab = ste_lab()
        lab.training = True
        await asyncio.sleep(0)
        lab.seed = 1
        await asyncio.sleep(0.05)
        return lab

    lab = asyncio.run(left())
    assert (lab.training, lab.progress["step"], lab.progress["seed"]) == (False, 0, 1)
    assert lab._finished().seed == 1


def test_another_start_forgets_what_was_trained(short_training: None) -> None:
    lab = ste_lab()
    lab.train()

    lab.seed = 1

    assert (lab.progress["step"], lab.progress["runs"], lab.progress["seed"]) == (0, [], 1)


class FailsInTraining(RoundSTE):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.dim() > 1:
            raise ValueError("one row only")
        return x.round()


def test_what_raises_in_training_ends_it_with_a_sentence() -> None:
    lab = ste_lab(FailsInTraining)

    lab.train()

    said = "Training with FailsInTraining raised ValueError: one row only."
    assert (lab.progress["notice"], lab.progress["runs"]) == (said, [])
    assert said in repr(lab)
    assert lab.png.startswith(b"\x89PNG")


# What remains in the notebook


@pytest.mark.colab
def test_a_saved_notebook_has_the_picture_and_the_account(short_training: None) -> None:
    lab = ste_lab()
    data, _ = lab._repr_mimebundle_()

    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == repr(lab)
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_account_tells_all() -> None:
    assert repr(ste_lab()) == (
        "STE lab: sign forward, clipped backward (it multiplies by 1 for -1 ≤ x ≤ 1, else 0).\n"
        "  Forward maps x = 0.4 to 1. "
        "Backward maps grad_output = 1 to ∂ 1: the gradient passes unchanged.\n"
        "  The chord of the staircase over x ± 1 has slope 1: ∂ agrees with it.\n"
        "  From -3 to 3, the staircase rises by 2 and the surrogate by 2.\n"
        "  Mean difference between ∂ and the slope over x ± 1: 0.00.\n"
        "Trained 150 of 150 steps with the hidden activations quantized, random start 1:\n"
        "  zero (true)  loss 0.30, 88% right\n"
        "  identity     loss 0.30, 90% right\n"
        "  clipped      loss 0.07, 98% right\n"
        "  tanh         loss 0.00, 100% right\n"
        "  sigmoid      loss 0.00, 100% right"
    )


def test_the_picture_is_small_and_repeats(short_training: None) -> None:
    pictures = {ste_lab("round", "identity").png for _ in range(2)}

    assert len(pictures) == 1
    assert len(pictures.pop()) < 60_000


@pytest.mark.colab
@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_what_is_sent_to_the_page_is_json_and_small(quantizer: str) -> None:
    state = ste_lab(quantizer).get_state(["sweep", "progress", "board"])

    assert len(json.dumps(state, allow_nan=False)) < 70_000


# State


@pytest.mark.colab
def test_another_quantizer_is_sampled(short_training: None) -> None:
    lab = ste_lab("sign", "tanh")

    lab.quantizer = "round"

    assert (lab.sweep["name"], lab.surrogate) == ("round", "tanh")
    assert lab.trace.staircases[0].climb == 6


@pytest.mark.colab
def test_an_x_off_the_sweep_is_sampled(short_training: None) -> None:
    lab = ste_lab()

    lab.x = 0.123

    assert 0.123 in lab.sweep["xs"]
    assert "x = 0.123 to 1" in repr(lab)


@pytest.mark.colab
def test_own_functions_are_compared(short_training: None) -> None:
    lab = ste_lab({"mine": RoundSTE, "beside": "clipped"})

    assert lab.trace.names() == ("mine", "beside")
    assert len(lab.trace.staircases) == 1  # the named surrogate reuses the other one's staircase
    assert set(estimate(lab, "mine").gradients) == {1.0}
    assert lab.sweep["quantizers"] == []


def test_one_function_alone(short_training: None) -> None:
    lab = ste_lab(RoundSTE)

    assert (lab.surrogate, lab.trace.names()) == ("RoundSTE", ("RoundSTE",))
    assert repr(lab).startswith("STE lab: RoundSTE.")


# It leaves no trace behind


def test_nothing_of_a_graph_stays_alive() -> None:
    kept: list[weakref.ref[Any]] = []

    class Watched(RoundSTE):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            kept.append(weakref.ref(ctx))
            return x.round()

    gc.collect()
    gc.disable()
    try:
        lab = ste_lab(Watched)
        lab.train()
        assert len(kept) > 100
        assert not [ref for ref in kept if ref() is not None]
    finally:
        gc.enable()


class NoisyRound(RoundSTE):
    """Draws random numbers that do not affect its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round() + 0 * torch.rand_like(x)


def test_the_caller_is_not_disturbed(short_training: None) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float16)
    try:
        with torch.no_grad():
            lab = ste_lab({"noisy": NoisyRound})
            lab.train()
            assert (lab.progress["step"], lab.progress["notice"]) == (6, "")
            assert not torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
        assert torch.get_default_dtype() == torch.float16
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)


# If something cannot be shown, a sentence says so


class Summed(RoundSTE):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sum()


class Centered(RoundSTE):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x - x.mean()


class Raises(RoundSTE):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        raise KeyError("scale")


class RaisesBack(RoundSTE):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        raise ValueError("not\ntoday")


class Nothing(RoundSTE):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> None:
        return None


class NotFinite(RoundSTE):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output / 0


class MixesBack(RoundSTE):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output / len(grad_output)


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        return (x / scale).round() * scale


@pytest.mark.colab
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("signum",), "no quantizer 'signum'; choose one of: sign, ternary"),
        (("sign", "soft"), "no surrogate 'soft'; choose one of: zero, identity"),
        (("sign", "clipped", 7.0), "x is 7, but the lab shows -3 to 3"),
        (("sign", "clipped", "a"), "x must be a number from -3 to 3, not 'a'"),
        ((torch.round,), "round is not one; pass the class itself"),
        ((RoundSTE.apply,), "shows torch.autograd.Function classes"),
        (({},), "You passed no Function"),
        (({"mine": RoundSTE, "b": "soft"},), "no surrogate 'soft'"),
        (({"mine": Centered, "b": "tanh"},), "The staircase of Centered is none of sign"),
        ((Summed,), r"Summed is not elementwise: .* it returned shape \(\)"),
        ((Centered,), "Centered is not elementwise, because the result for an element depends"),
        ((MixesBack,), "MixesBack is not elementwise"),
        ((Raises,), "The forward of Raises raised KeyError: 'scale'"),
        ((RaisesBack,), "The backward of RaisesBack raised ValueError: not.$"),
        ((Nothing,), "The backward of Nothing returned None"),
        ((NotFinite,), "The backward of NotFinite returned numbers that are not finite"),
        ((Scaled,), "The forward of Scaled raised TypeError"),
    ],
)
def test_what_cannot_be_shown(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(TraceError, match=said) as caught:
        ste_lab(*given)

    assert "\n" not in str(caught.value)


@pytest.mark.colab
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("x", 4.0, "x is 4, but the lab shows"),
        ("width", 0.3, "width is 0.3, but it must be one of"),
        ("place", "biases", "place must be 'activations' or 'weights'"),
        ("surrogate", "soft", "no surrogate 'soft' here"),
        ("quantizer", "signum", "no quantizer 'signum'"),
    ],
)
def test_what_cannot_be_set(name: str, value: Any, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        setattr(ste_lab(), name, value)


@pytest.mark.colab
def test_the_forward_of_own_functions_cannot_be_changed() -> None:
    with pytest.raises(TraceError, match="your own Functions"):
        ste_lab(RoundSTE).quantizer = "sign"


def test_the_view_is_what_the_sentences_say() -> None:
    assert VIEW == (-3.0, 3.0)


def test_page_and_picture_have_the_kits_colors() -> None:
    style = (BUNDLES / "stelab.css").read_text(encoding="utf-8")
    named = re.findall(r"--ac-ste-c\d: var\((--ac-\w+)\)", style)
    light = [re.search(rf"{name}: (#\w+)", style) for name in named]

    assert [found and found[1] for found in light] == [look(i)["color"] for i in range(5)]
