"""Test the statements about PyTorch in the questions of the course's knowledge check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor.memory import kept_bytes
from running_pages import run
from torch.autograd import Function, grad, gradgradcheck

from autograd_course import diagnose
from autograd_course.functions import ClippedSTE, GumbelSoftmax, ReinMax
from autograd_course.functions.noise import gumbel_noise

pytestmark = pytest.mark.slow

CLAIMS: dict[str, Callable[[], object]] = {}


def claim(check: Callable[[], object]) -> Callable[[], object]:
    CLAIMS[check.__name__.replace("_", "-")] = check
    return check


def function(forward: Any, backward: Any, **methods: Any) -> type[Function]:
    """Return a Function made from two plain functions."""
    made = {"forward": forward, "backward": backward} | methods
    namespace: dict[str, Any] = {k: staticmethod(v) for k, v in made.items()}
    return type("Made", (Function,), namespace | {"generate_vmap_rule": "jvp" in made})


def kept(ctx: Any, x: torch.Tensor) -> torch.Tensor:
    ctx.save_for_backward(x)
    return x * x


def floats(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@claim
def mean_instead_of_sum() -> None:
    forgetful = function(kept, lambda ctx, g: 2 * ctx.saved_tensors[0])
    x = floats(4)
    ours, true = grad(forgetful.apply(x).mean(), x)[0], grad((x * x).mean(), x)[0]
    assert torch.allclose(ours, 4 * true)


@claim
def optional_left_out() -> None:
    def accepted(back: Callable[[torch.Tensor], Any]) -> bool:
        made = function(lambda ctx, x, w, bias=None: x * w, lambda ctx, g: back(g))
        try:
            made.apply(floats(3), floats(3)).sum().backward()
        except RuntimeError:
            return False
        return True

    assert accepted(lambda g: (g, g))
    assert accepted(lambda g: (g, g, None))
    assert not accepted(lambda g: g)
    assert not accepted(lambda g: (g, g, g))


@claim
def worth_a_function() -> None:
    x = torch.randn(1000, requires_grad=True)
    once = function(kept, lambda ctx, g: g)

    def plain(h: torch.Tensor) -> torch.Tensor:
        return h * h.tanh()

    assert kept_bytes(lambda x: plain(1 * x), x) == 8000
    assert kept_bytes(lambda x: once.apply(1 * x), x) == 4000


@claim
def mask_on_the_class() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        gate.mask = x > 0  # type: ignore[attr-defined]
        return x * gate.mask  # type: ignore[attr-defined]

    gate = function(forward, lambda ctx, g: g * gate.mask)  # type: ignore[attr-defined]
    a = torch.tensor([1.0, -1.0], requires_grad=True)
    b = torch.tensor([-1.0, 1.0], requires_grad=True)
    (gate.apply(a) + gate.apply(b)).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == b.grad.tolist() == [0, 1]


@claim
def slice_then_relu() -> None:
    first = function(lambda ctx, x: x[:, :3], lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="view was created inside a custom Function"):
        first.apply(2 * floats(2, 5)).relu_()


@claim
def save_before_the_write() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        return x

    relu = function(forward, lambda ctx, g: g * (ctx.saved_tensors[0] > 0))
    x = floats(5)
    (gradient,) = grad(relu.apply(1 * x).sum(), x)
    assert torch.equal(gradient, (x > 0).double())


@claim
def count_the_grads() -> None:
    seen: list[int] = []
    made = function(
        lambda ctx, x: tuple(x.sort()), lambda ctx, *grads: [seen.append(len(grads)), grads[0]][1]
    )
    made.apply(floats(3))[0].sum().backward()
    assert seen == [2]


@claim
def outer_product() -> None:
    a, b, g = floats(3), floats(5), floats(3, 5)
    true = grad(a[:, None] * b, (a, b), g)
    assert torch.allclose(true[0], g @ b)
    assert torch.allclose(true[1], g.mT @ a)


@claim
def running_sum() -> None:
    x, g = floats(4), floats(4)
    assert torch.allclose(grad(x.cumsum(0), x, g)[0], g.flip(0).cumsum(0).flip(0))


@claim
def shared_maximum() -> None:
    x = torch.tensor([2.0, 5.0, 5.0], requires_grad=True)
    assert grad(x.amax(), x)[0].tolist() == [0, 0.5, 0.5]
    assert sorted(grad(x.max(0).values, x)[0].tolist()) == [0, 0, 1]


@claim
def centered() -> None:
    made = function(lambda ctx, x: x - x.mean(0), lambda ctx, g: g)
    assert diagnose(made, (floats(5),)).findings[0].rule == "missing-dependency"


@claim
def log_of_sigmoid() -> None:
    z = torch.tensor(-200.0, requires_grad=True)
    loss = -torch.log(torch.sigmoid(z))
    assert loss.isinf()
    assert grad(loss, z)[0].isnan()
    stable = -torch.nn.functional.logsigmoid(z)
    assert (stable.item(), grad(stable, z)[0].item()) == (200, -1)


@claim
def dilated_taps() -> None:
    a, b, x, g = floats(1), floats(1) + 1, floats(8), floats(5)
    true = grad(a * x[:-3] + b * x[3:], (b, x), g)
    assert torch.allclose(true[0], (g * x[3:]).sum())
    pad = torch.nn.functional.pad
    assert torch.allclose(true[1], a * pad(g, (0, 3)) + b * pad(g, (3, 0)))


@claim
def conjugated() -> None:
    z = torch.complex(floats(3), floats(3)).detach().requires_grad_()
    g = torch.complex(floats(3), floats(3) + 1).detach()
    assert torch.equal(grad(z.conj(), z, g)[0], g.conj())


@claim
def which_declaration() -> None:
    x = 3 * floats(6).detach()
    good = function(lambda ctx, x: x.floor(), lambda ctx, g: g)
    bad = function(lambda ctx, x: x.floor(), lambda ctx, g: 2 * g)
    identity = {"surrogate": lambda x: 1 * x}
    assert diagnose(good, (x,), **identity).ok
    assert not diagnose(bad, (x,), **identity).ok
    assert not diagnose(good, (x,), reference=lambda x: 1 * x).ok
    assert not diagnose(good, (x,), surrogate=torch.floor).ok
    declared = {"intentional": ("undeclared-surrogate",)}
    for either in (good, bad):
        diagnosis = diagnose(either, (x,), **declared)
        assert diagnosis.findings == ()
        assert diagnosis.ok is None


@claim
def square_of_rounded() -> None:
    rounded = function(lambda ctx, x: x.round(), lambda ctx, g: g)
    x = torch.tensor(1.4, requires_grad=True)
    assert grad(rounded.apply(x).square(), x)[0].item() == 2


@claim
def sign_of_a_sign() -> None:
    q = ClippedSTE.apply
    x = torch.tensor(0.5, requires_grad=True)
    assert grad(q(x), x)[0].item() == 1
    assert grad(q(3 * q(x)), x)[0].item() == 0


@claim
def saved_relu_mask() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        mask = x > 0
        ctx.save_for_backward(mask)
        return x * mask

    assert gradgradcheck(
        function(forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply, floats(5)
    )


@claim
def norm_saved() -> None:
    def split(ctx: Any, x: torch.Tensor) -> Any:
        n = x.norm()
        ctx.save_for_backward(x, n)
        return x / n, n

    def first(ctx: Any, x: torch.Tensor) -> Any:
        return split(ctx, x)[0]

    def by_saved(ctx: Any, g: torch.Tensor, grad_n: torch.Tensor | None = None) -> Any:
        x, n = ctx.saved_tensors
        gradient = g / n - x * (g * x).sum() / n**3
        return gradient if grad_n is None else gradient + grad_n * x / n

    def again(ctx: Any, g: torch.Tensor) -> Any:
        x, _ = ctx.saved_tensors
        return g / x.norm() - x * (g * x).sum() / x.norm() ** 3

    x = floats(3)
    assert not gradgradcheck(function(first, by_saved).apply, x, raise_exception=False)
    assert gradgradcheck(function(first, again).apply, x)
    assert gradgradcheck(function(split, by_saved).apply, x)


@claim
def newton_step() -> None:
    x = floats(3)
    (g,) = grad((x**3).sum(), x, retain_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(g.sum(), x)


@claim
def expanded_saved() -> None:
    def forward(ctx: Any, b: torch.Tensor) -> torch.Tensor:
        wide = b.expand(1000, 512)
        ctx.save_for_backward(wide)
        return wide.sum()

    b = torch.ones(512)
    made = function(forward, lambda ctx, g: g.expand(512))
    assert kept_bytes(lambda b: made.apply(1 * b), b.requires_grad_()) == 2048


@claim
def batch_norm_twice() -> None:
    from torch.utils.checkpoint import checkpoint

    norm = torch.nn.BatchNorm1d(3)
    checkpoint(norm, torch.randn(4, 3, requires_grad=True), use_reentrant=False).sum().backward()
    assert int(norm.num_batches_tracked) == 2  # type: ignore[arg-type]


@claim
def with_lse_in_the_loss() -> None:
    s, r = floats(2, 4), floats(2)
    (gradient,) = grad(torch.logsumexp(s, 1) @ r + torch.softmax(s, 1)[:, 0].sum(), s)
    assert torch.allclose(gradient.sum(1), r)


@claim
def one_visible_key() -> None:
    q, k, v = (floats(1, 4, 8) for _ in "qkv")
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    (gradient,) = grad(out.square().sum(), q)
    assert gradient[0, 0].abs().max() < 1e-12
    assert gradient[0, 1].abs().max() > 1e-3


@claim
def safe_branch() -> None:
    x = torch.zeros(1, requires_grad=True)
    assert grad(torch.where(x > 0, x.sqrt(), 0.0).sum(), x)[0].isnan().all()


@claim
def cold_gumbel() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = -torch.log(-torch.log(torch.rand(4000, 2, generator=generator)))
    found = {}
    for temperature in (1.0, 0.02):
        logits = torch.zeros(4000, 2, requires_grad=True)
        soft = torch.softmax((logits + noise) / temperature, 1)
        found[temperature] = grad(soft[:, 0].sum(), logits)[0][:, 0]
    cold, warm = found[0.02], found[1.0]
    assert cold.median() < 0.01 * warm.median()
    assert cold.max() > 20 * warm.max()
    assert cold.var() > 10 * warm.var()


@claim
def sums_to_zero() -> None:
    logits, noise = floats(5, 3), floats(5, 3).detach()
    g = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (gradient,) = grad(GumbelSoftmax.apply(logits, noise, 1.0, True), logits, g)
    assert gradient.sum(1).abs().max() < 1e-12
    assert (gradient != 0).all()


@claim
def linear_in_the_sample() -> None:
    logits, c = floats(3), torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    p = logits.softmax(-1)
    (true,) = grad(p @ c, logits)
    by_draw = [grad(ReinMax.apply(logits, 1e3 * y) @ c, logits)[0] for y in torch.eye(3).double()]
    assert torch.allclose(sum(p[k].item() * by_draw[k] for k in range(3)), true)
    assert abs(c.sum()) > 1 > 1e-12 > abs(true.sum())
    noise = gumbel_noise(torch.empty(100_000, 3).double(), torch.Generator().manual_seed(0))
    (soft,) = grad(((logits + noise) / 0.5).softmax(-1).mean(0) @ c, logits)
    assert (soft - true).abs().max() > 0.01  # five standard errors


@claim
def forward_mode_users() -> None:
    made = function(
        lambda x: x**3,
        lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
        setup_context=lambda ctx, inputs, output: [
            ctx.save_for_backward(*inputs),
            ctx.save_for_forward(*inputs),
        ][0],
        jvp=lambda ctx, t: 2 * t,
    )
    x = floats(1).detach()
    assert torch.func.jacfwd(made.apply)(x).item() == 2
    assert torch.allclose(torch.func.jacrev(made.apply)(x).flatten(), 3 * x**2)
    assert gradgradcheck(made.apply, floats(1))
    for power, agrees in ((1, True), (2, False)):
        ours = torch.func.hessian(lambda x, k=power: made.apply(x).sum() ** k)(x)
        true = torch.func.hessian(lambda x, k=power: (x**3).sum() ** k)(x)
        assert torch.allclose(ours, true) == agrees


@claim
def no_ctx_in_forward() -> None:
    def passed_in(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def computed_again(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[0] ** 2)

    def back(ctx: Any, g: torch.Tensor) -> Any:
        return 3 * ctx.saved_tensors[1] * g, None

    def twice(f: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        (slope,) = grad(f(x).sum(), x, create_graph=True)
        assert torch.allclose(slope, 3 * x**2)
        return grad(slope.sum(), x)[0] if slope.requires_grad else torch.zeros(3)

    x = floats(3)
    given = function(lambda x, t: x * t, back, setup_context=passed_in)
    assert torch.allclose(twice(lambda x: given.apply(x, x**2)), 6 * x)
    again = function(
        lambda x: x**3,
        lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    assert torch.allclose(twice(again.apply), 6 * x)
    saved = function(lambda x: x**3, lambda ctx, g: back(ctx, g)[0], setup_context=computed_again)
    assert not twice(saved.apply).any()


@claim
def one_example_at_a_time() -> None:
    class ByMean(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x / x.mean()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g

    batch = floats(8, 3).detach()
    loop = torch.stack([row / row.mean() for row in batch])
    assert torch.allclose(torch.func.vmap(ByMean.apply)(batch), loop)


OPERATOR = """
@torch.library.custom_op("course::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return 3 * x

triple.register_fake(torch.empty_like)
triple.register_autograd(lambda ctx, g: 6 * g)
torch.library.opcheck(triple, (torch.ones(3, requires_grad=True),))
"""


@torch.library.custom_op("course::negated", mutates_args=())
def negated(x: torch.Tensor) -> torch.Tensor:
    return -x


negated.register_fake(torch.empty_like)


@claim
def kernel_inside() -> None:
    around = function(
        lambda x: negated(x), lambda ctx, g: -g, setup_context=lambda ctx, inputs, output: None
    )
    x = floats(3)
    assert torch.equal(torch.func.grad(lambda x: around.apply(x).sum())(x.detach()), -torch.ones(3))
    torch._dynamo.reset()
    torch.compile(around.apply, backend="aot_eager", fullgraph=True)(x).sum().backward()
    assert torch.equal(x.grad, -torch.ones(3))
    with pytest.raises(NotImplementedError, match="must implement the jvp"):
        torch.func.jvp(around.apply, (x.detach(),), (x.detach(),))


@claim
def what_opcheck_sees() -> None:
    passed, _ = run(OPERATOR, {"torch": torch, "__name__": "__main__"})
    assert set(passed.values()) == {"SUCCESS"}


@claim
def numpy_twice() -> None:
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.numpy()))

    made = function(forward, lambda ctx, g: g * torch.cos(ctx.saved_tensors[0]))
    assert gradgradcheck(made.apply, floats(3))


@claim
def strided_by_the_sum() -> None:
    seen: list[Any] = []
    made = function(lambda ctx, x: 2 * x, lambda ctx, g: [seen.append(g.stride()), 2 * g][1])
    made.apply(floats(3)).sum().backward()
    assert seen == [(0,)]


@claim
def noisy_gradient() -> None:
    noise = torch.randn(400, 100, generator=torch.Generator().manual_seed(0))
    scores = (0.8 + noise).square()
    right, biased = (scores * noise).mean(1), 1.1 * (scores * noise).mean(1)

    def off(draws: torch.Tensor) -> float:
        return abs(draws.mean().item() - 1.6) / (draws.std().item() / 20)

    assert off(right) < 3 < off(biased)


@claim
def operator_in_the_middle() -> None:
    library = torch.library.Library("course_bank", "DEF")
    library.define("triple(Tensor x) -> Tensor")
    library.impl("triple", lambda x: torch.from_numpy(3 * x.numpy(force=True)), "CPU")
    head, body = torch.nn.Linear(2, 1), torch.nn.Linear(2, 2)
    result = head(torch.ops.course_bank.triple(body(torch.ones(3, 2))))
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        result.sum().backward()
    assert head.weight.grad is not None
    assert body.weight.grad is None


@claim
def output_like_the_input() -> None:
    given = torch.arange(6.0).reshape(2, 3).mT
    output = torch.empty_like(given)
    output.as_strided((6,), (1,))[:] = given.contiguous().flatten()  # as a kernel fills its output
    assert output.shape == given.shape
    assert sorted(output.flatten().tolist()) == sorted(given.flatten().tolist())
    assert not torch.equal(output, given)


class Stepped(Function):
    """A sign with a straight-through gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output


class Net(torch.nn.Module):
    """A module that contains this Function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = Stepped.apply(x)
        return result


@claim
def export_and_backward() -> None:
    exported = torch.export.export(Net(), (torch.randn(4, 3),))
    operations = {str(n.target) for n in exported.graph.nodes if n.op == "call_function"}
    assert operations == {"aten.sign.default"}


@claim
def another_batch() -> None:
    exported = torch.export.export(Net(), (torch.randn(4, 3),)).module()
    with pytest.raises(Exception, match=r"4"):
        exported(torch.randn(7, 3))


@claim
def one_scale_for_all() -> None:
    weights = torch.stack([torch.linspace(-10, 10, 9), torch.linspace(-0.01, 0.01, 9)])
    step = 10 / 127
    assert (weights[1] / step).round().abs().max() == 0


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_what_a_question_says_of_pytorch_is_so(name: str) -> None:
    CLAIMS[name]()
