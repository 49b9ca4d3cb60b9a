"""What diagnose promises besides its verdict: reports, no side effects, and clear errors."""

from __future__ import annotations

import random
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from autograd_doctor import CannotDiagnoseError, WrongGradientError, diagnose
from autograd_doctor.extension import collect_evidence
from cases.making import IDX, TABLE, X, Y, draw, saving
from right import GradientReversal, Linear, Square
from sampling import first_rows
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import Function

HalfSquare = saving(lambda x: x * x, lambda x, g: x * g)


# Reports


def test_the_report_reads_well() -> None:
    assert str(diagnose(HalfSquare, (torch.tensor([1.0, -2.0, 3.0]),))) == (
        "✗ Made · wrong\n"
        "  constant-factor: The gradient of `args[0]` is 1/2 times the true gradient.\n"
        "  example  args[0][2] = 3, grad_output = 2.224: gradient 6.671, should be 13.34\n"
        "  at       return b(*args, *gs)\n"
        "  repair   change line 50 of making.py\n"
        "  before   return b(*args, *gs)\n"
        "  after    return 2 * b(*args, *gs)\n"
        "  tried    With this change, every gradient is right on your example, other values and\n"
        "           inputs of shape (2,).\n"
        "  hint     Compare the constants in `forward` and `backward` (an exponent, the 1/N of a\n"
        "           mean, a scale, an inner derivative). One of them is missing from `backward`,\n"
        "           occurs there twice, or has another value there.\n"
        "  lesson   01_template"
    )


def test_a_warning_is_no_error() -> None:
    float_mask = saving(torch.relu, lambda x, g: g.float() * (x > 0))

    lines = str(diagnose(float_mask, (X,))).splitlines()

    assert lines[0] == "✓ Made · no error, 1 warning"
    assert lines[1].startswith("  warning, gradient-dtype: For float64 inputs, `backward` returns")


def test_a_clean_report_says_what_was_examined() -> None:
    lines = str(diagnose(Square, (X,))).splitlines()

    assert lines[0] == "✓ Square · nothing wrong found"
    assert all(line.startswith("  examined ") for line in lines[1:])
    for part in ("the contract", "linearity", "values", "layouts", "second derivatives"):
        assert part in "\n".join(lines)


def only_at_1(x: Tensor, scale: float) -> Tensor:
    if scale != 1:
        raise ValueError(scale)
    return scale * x


def test_a_number_that_hides_a_mistake_is_replaced_by_another_one() -> None:
    """The factor beta is missing from this backward."""
    logistic = saving(lambda x, beta: (beta * x).sigmoid(), half_of_a_logistic)
    (found,) = diagnose(logistic, (X, 1.0)).findings

    assert (found.rule, found.severity) == ("constant-factor", "error")
    assert "This is so with `args[1]` = 0.75 instead of 1." in found.message
    assert "constant-factor" in words(logistic, 2.0)


def test_a_term_with_the_number_0_is_examined() -> None:
    decayed = saving(lambda x, rate: x + rate * x**3, lambda x, rate, g: (g, None))

    assert "= 0.25 instead of 0." in diagnose(decayed, (X, 0.0)).findings[0].message


@pytest.mark.parametrize(
    ("computes", "slope"),
    [
        ("log(-0.5)", lambda x: torch.log(torch.full_like(x, -0.5))),
        ("0 / 0", lambda x: (x - x) / (x - x)),
        ("0 · ∞", lambda x: (x - x) * torch.full_like(x, torch.inf)),
        ("sqrt(-1e-05)", lambda x: torch.full_like(x, -1e-5).sqrt()),
    ],
)
def test_the_first_nan_is_explained(computes: str, slope: Any) -> None:
    wrong = saving(lambda x: x * x, lambda x, g: g * slope(x))

    assert f"because it computes {computes}." in diagnose(wrong, X).findings[0].hint


def test_a_number_that_only_backward_uses_is_a_design() -> None:
    """For example, it keeps a gradient finite."""
    root = saving(
        lambda x, eps: (x * x + 1).sqrt(),
        lambda x, eps, g: (g * x / (x * x + 1 + eps).sqrt(), None),
    )

    assert diagnose(root, (X, 0.0)).ok


def test_with_several_tensors_a_mistake_at_another_number_is_a_warning() -> None:
    """The tensors may have been computed for the example's number."""

    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor, gain: float) -> Tensor:
            ctx.save_for_backward(x, y)
            return gain * x * y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
            x, y = ctx.saved_tensors
            return g * y, g * x, None

    diagnosis = diagnose(Scaled, (X, X + 1, 1.0))

    assert diagnosis.ok
    assert [found.severity for found in diagnosis.findings] == ["warning"]
    assert "pass `sampler=`" in diagnosis.findings[0].message


@pytest.mark.parametrize(
    ("forward", "options"),
    [
        (lambda x, scale: scale * x, {"reference": lambda x, scale: x}),
        (lambda x, scale: x.round(), {"surrogate": lambda x, scale: x}),
        (only_at_1, {}),
    ],
    ids=["a reference written for 1", "a surrogate written for 1", "forward accepts only 1"],
)
def test_a_number_that_cannot_be_replaced_is_named(
    forward: Callable[..., Tensor], options: dict[str, Any]
) -> None:
    identity = saving(forward, lambda x, scale, g: (g, None))
    diagnosis = diagnose(identity, (X, 1.0), **options)

    assert diagnosis.ok
    hidden = "`args[1]` only at 1, where a missing factor `args[1]` does not show"
    assert hidden in " ".join(diagnosis.limits)


def half_of_a_logistic(x: Tensor, beta: float, g: Tensor) -> tuple[Tensor, None]:
    y = (beta * x).sigmoid()
    return g * y * (1 - y), None


def words(function: Any, number: float) -> str:
    return " ".join(str(diagnose(function, (X, number))).split())


def test_raise_if_wrong_raises_the_report() -> None:
    with pytest.raises(WrongGradientError, match="constant-factor") as raised:
        diagnose(HalfSquare, (X,)).raise_if_wrong()

    assert raised.value.diagnosis.findings[0].rule == "constant-factor"
    diagnose(Square, (X,)).raise_if_wrong()


def test_a_notebook_shows_what_a_gradient_is_and_should_be_side_by_side() -> None:
    html = diagnose(HalfSquare, (torch.tensor([3.0]),))._repr_html_()
    gradient, expected, difference = re.findall(r"<code[^>]*600\">(\S+)</code>", html)

    assert float(expected) == pytest.approx(2 * float(gradient), rel=1e-3)
    assert float(difference) == pytest.approx(float(gradient) - float(expected), rel=1e-3)


# No side effects


def draws_and_sets(x: Tensor) -> Tensor:
    torch.rand(3)
    np.random.rand(3)
    random.random()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    return x * x


def test_the_callers_world_is_left_as_it_was() -> None:
    rude = saving(draws_and_sets, lambda x, g: 2 * x * g)
    x = X.clone().requires_grad_()
    x.grad = torch.ones_like(x)

    def world() -> list[Any]:
        return [
            torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate(),
            torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(),
            x.tolist(), x._version, x.grad.tolist(), x.requires_grad, dict(vars(rude)),
        ]  # fmt: skip

    before = world()
    with torch.no_grad():
        diagnose(rude, (x,))

    assert world() == before


def test_a_verdict_does_not_depend_on_the_callers_grad_mode_or_on_warnings() -> None:
    def warns(x: Tensor) -> Tensor:
        warnings.warn("a word", stacklevel=1)
        return x * x

    with torch.no_grad():
        assert diagnose(saving(warns, lambda x, g: 2 * x * g), (X,)).ok


def test_a_verdict_does_not_depend_on_the_callers_autocast_or_inference_mode() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        x, weight = X.float() + 0, Y.float() + 0
        assert diagnose(Linear, (x, weight)).findings == ()

        assert torch.is_autocast_enabled("cpu")
        assert torch.is_inference_mode_enabled()


def test_only_inputs_that_ask_for_a_gradient_are_judged_where_some_do() -> None:
    lazy = saving(lambda x, y: x * y, lambda x, y, g: (y * g, None))

    assert diagnose(lazy, (X.clone().requires_grad_(), Y)).ok
    assert diagnose(lazy, (X, Y)).findings[0].rule == "missing-gradient"


def test_inputs_stay_within_the_range_of_the_example() -> None:
    forgets_the_ceiling = saving(lambda x: x.clamp(0, 6), lambda x, g: g * (x > 0))
    x = torch.tensor([-2.0, 0.5, 3.0], dtype=torch.float64)

    assert diagnose(forgets_the_ceiling, x).ok
    assert diagnose(forgets_the_ceiling, 3 * x).findings[0].rule == "wrong-region"


def test_the_sampler_finds_what_the_example_hides() -> None:
    untested_side = saving(torch.abs, lambda x, g: g)
    positive = X.abs() + 0.1

    assert diagnose(untested_side, (positive,)).ok
    found = diagnose(
        untested_side, (positive,), sampler=lambda rng: (torch.randn(3, 4, generator=rng),)
    )
    assert found.findings[0].rule == "wrong-region"


def test_a_sparse_gradient_is_compared_with_the_truth() -> None:
    rows = torch.tensor([0, 2, 2])

    def looked_up(factor: float) -> type[Function]:
        def backward(table: Tensor, g: Tensor) -> Tensor:
            return torch.sparse_coo_tensor(rows[None], factor * g, table.shape)

        return saving(lambda table: table[rows], backward)

    assert diagnose(looked_up(1.0), (X,)).ok
    assert diagnose(looked_up(0.5), (X,)).findings[0].rule == "constant-factor"


# Intended deviations


def test_an_intended_rule_is_not_reported() -> None:
    clipped = saving(lambda x: 1.0 * x, lambda x, g: g.clamp(-1, 1))

    assert not diagnose(clipped, (X,)).ok
    assert diagnose(clipped, (X,), intentional="nonlinear-in-grad-output").ok


def pad_gets_none(table: Tensor, index: Tensor, pad: int, g: Tensor) -> Any:
    return torch.zeros_like(table).index_add(0, index[index != pad], g[index != pad]), None, None


def test_what_is_held_fixed_is_declared_by_a_reference() -> None:
    padded = saving(lambda table, index, pad: table[index], pad_gets_none)
    call = (TABLE, IDX, 0)

    assert "if meant for elements that get no gradient by design" in str(diagnose(padded, call))
    held = diagnose(padded, call, reference=lambda t, i, pad: F.embedding(i, t, padding_idx=pad))
    assert held.ok


class ForgetsTheFirst(Function):
    """2x along an axis. The number of the axis is not an index at which a zero is expected."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return 2 * g.index_fill(ctx.dim, torch.tensor([0], device=g.device), 0), None


def test_the_name_of_an_axis_is_no_index() -> None:
    assert "off-by-one" in str(diagnose(ForgetsTheFirst, (TABLE, 0)))


def test_a_reversal_of_any_strength_is_told_how_it_is_declared() -> None:
    declared = "surrogate=lambda x, strength: -strength * x"

    assert declared in " ".join(str(diagnose(GradientReversal, (X, 0.3))).split())
    assert diagnose(GradientReversal, (X, 0.3), surrogate=lambda x, strength: -strength * x).ok
    assert not diagnose(GradientReversal, (X, 0.3), surrogate=lambda x, strength: -x).ok
    assert "if meant" not in str(diagnose(HalfSquare, (X,)))


def test_a_surrogate_is_the_truth_for_backward() -> None:
    clipped_ste = saving(torch.sign, lambda x, g: g * (x.abs() < 1))

    def declared(x: Tensor) -> Tensor:
        return x.clamp(-1, 1)

    assert diagnose(clipped_ste, (2 * X,), surrogate=declared).ok
    at_the_kink = torch.tensor([-1.0, 0.3, 1.0, 2.0])
    assert diagnose(clipped_ste, at_the_kink, surrogate=declared).ok
    straight = saving(torch.sign, lambda x, g: 1.0 * g)
    assert diagnose(straight, (2 * X,), surrogate=declared).findings[0].rule == "wrong-region"


# Rejected arguments


@pytest.mark.parametrize(
    ("fn", "inputs", "options", "says"),
    [
        (3, (X,), {}, "needs a torch.autograd.Function subclass or a callable, got int"),
        (torch.nn.Linear, (X,), {}, r"the class Linear: pass an instance, such as Linear\(\)"),
        (torch.autograd.Function, (X,), {}, "Function has no forward yet"),
        (Square, (torch.arange(3),), {}, "no input is a floating-point or complex tensor"),
        (Square, (3.0,), {}, "no input is a floating-point or complex tensor"),
        (Square, (X,), {"intentional": ("fliped-sign",)}, "Did you mean 'flipped-sign'?"),
        (saving(torch.log, lambda x, g: g / x), (X,), {}, "returned nan .* inside its domain"),
        (Square, (X,), {"reference": lambda x: x @ x}, "the reference raised RuntimeError"),
        (Square, (X.to_sparse(),), {}, "an input is sparse, which diagnose does not support"),
        (saving(torch.argmax, lambda x, g: None), (X,), {}, "no output of Made is differentiable"),
        (saving(Tensor.to_sparse, lambda x, g: g.to_dense()), (X,), {}, "returned a sparse tensor"),
        (Square, (X.to("meta"),), {}, "an input is on the meta device"),
        (Square, (FakeTensorMode().from_tensor(X),), {}, "an input is a FakeTensor"),
        (torch.nn.LazyLinear(3), (X,), {}, "LazyLinear has uninitialized parameters: call the"),
        (Square, (X.to(torch.float8_e5m2),), {}, "torch.float8_e5m2, .* pass x.float"),
        (Square, (torch.nn.UninitializedParameter(),), {}, "an uninitialized parameter"),
        (saving(lambda x: x.to("meta"), lambda x, g: g), (X,), {}, "a tensor on the meta device"),
        (Square, (X,), {"reference": 3}, "reference= must be a callable, not 3"),
        (Square, (X,), {"reference": sys.exit}, "the reference raised SystemExit"),
        (Square, (X,), {"surrogate": sys.exit}, "the surrogate raised SystemExit"),
        (Square, (X,), {"reference": lambda x: (x * x).to_sparse()}, "return a dense"),
        (Square, (X,), {"reference": lambda x: x * x + 0j}, "complex128, but forward returned"),
        (Square, (X,), {"sampler": lambda rng: (X, X)}, "drew 2 inputs, but the example has 1"),
        (Square, (X,), {"sampler": sys.exit}, "the sampler raised SystemExit"),
        (Square, (X,), {"intentional": None}, "must hold names of rules, .* not NoneType"),
        (Square, (X,), {"intentional": [3]}, "must hold names of rules, .* not 3"),
        (Square, (X,), {"intentional": "fliped-sign"}, "rule. Did you mean 'flipped-sign'"),
        (Square, (X,), {"intentional": "?"}, r"got '\?', which is not the name of a rule\.$"),
        (Square, (X,), {"seed": "x"}, "seed= must be an integer from 0 to"),
        (Square, (X,), {"seed": -1}, "seed= must be an integer from 0 to"),
        (Square, (X,), {"level": []}, "level= must be 'standard' or 'full', not list"),
        (Square, (X,), {"time_limit": float("inf")}, "time_limit= must be a number of seconds"),
        (Square, (X,), {"double_backward": 1}, "double_backward= must be True, False or None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_examined_is_refused_in_one_sentence(fn, inputs, options, says) -> None:
    with pytest.raises(CannotDiagnoseError, match=says):
        diagnose(fn, inputs, **options)


def in_place(module: torch.nn.Module) -> torch.nn.Module:
    module.compile()
    return module


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # as torch.compile is imported
@pytest.mark.parametrize("wrap", [torch.compile, in_place], ids=["a wrapper", "in place"])
def test_compiled_code_is_refused_and_eager_code_in_a_wrapper_is_not(wrap) -> None:
    def layer() -> torch.nn.Module:
        return torch.nn.Linear(X.shape[-1], 2)

    for compiled in (wrap(layer()), torch.nn.Sequential(wrap(layer()))):
        with pytest.raises(CannotDiagnoseError, match="`fn` contains code"):
            diagnose(compiled, (X,))
    with pytest.raises(CannotDiagnoseError, match="`reference` contains code"):
        diagnose(Square, (X,), reference=torch.compile(torch.square))

    assert diagnose(torch.compiler.disable(Square.apply), (X,)).ok
    assert diagnose(torch.compiler.disable(layer()), (X,)).ok is not False


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_report_says_that_values_in_16_bits_were_not_examined(dtype: torch.dtype) -> None:
    report = diagnose(Square, (X.to(dtype),))

    assert report.ok
    assert f"no values in {str(dtype)[6:]}: the inputs are converted" in str(report)


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises(error: BaseException) -> Any:
    def method(x: Tensor, *gs: Tensor) -> Tensor:
        raise error

    return method


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch deprecates this
        return torch.jit.script(torch.nn.Linear(4, 2).double())


HELD = torch.ones(3, 4, dtype=torch.float64)
ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("fn", "inputs", "says"),
    [
        (saving(raises(TextlessError()), None), (X,), "raises TextlessError without a message"),
        (saving(raises(GeneratorExit()), None), (X,), "raises GeneratorExit"),
        (saving(raises(ValueError("x" * 10**6)), None), (X,), "raises ValueError: xxx"),
        (saving(torch.square, lambda x, g: (2 * x * g).to("meta")), (X,), "on .*meta"),
        (saving(lambda x: HELD, lambda x, g: g), (X,), "wrong"),
        (saving(torch.square, lambda x, g: 2 * x * g), (torch.ones(0, 2, 2),), "nothing wrong"),
        (saving(lambda x, n: 2 * x, lambda x, n, g: (g, None)), (X, 10**400), "constant-factor"),
        (saving(lambda x, n: 2 * x, lambda x, n, g: (2 * g, None)), (X, ITSELF), "nothing wrong"),
        (saving(lambda x, n: x.nope(), None), (X, object()), "args.1. <object object>"),
        (scripted(), (X,), "backward-never-called"),
    ],
    ids=["no text", "generator exit", "much text", "meta gradient", "a captured output", "empty",
         "a huge int", "a list that holds itself", "an address", "TorchScript"],
)  # fmt: skip
def test_what_is_odd_is_examined_all_the_same(fn, inputs, says) -> None:
    text = str(diagnose(fn, inputs))

    assert re.search(says, text.replace("\n", " "))
    assert len(text) < 3000


def test_a_fault_of_the_doctor_itself_is_no_verdict(monkeypatch) -> None:
    monkeypatch.setattr("autograd_doctor._pipeline.judge", lambda *_: 1 / 0)

    with pytest.raises(CannotDiagnoseError, match="diagnose itself failed: ZeroDivisionError"):
        diagnose(Square, (X,))


def test_a_large_input_is_sampled() -> None:
    assert diagnose(Square, torch.ones(300, 300)).ok


def unit_gradient(x: Tensor, g: Tensor, wrong: int | slice) -> Tensor:
    n = x.norm()
    gradient = g / n - x * (x @ g) / n**3
    gradient[wrong] *= 1.01
    return gradient


@pytest.mark.parametrize("place", first_rows([1234, 0, 4095], most=1))
def test_one_wrong_element_of_thousands_is_found(place: int) -> None:
    """256 elements are differentiated one by one. Random directions find the wrong element."""
    spoiled = saving(lambda x: x / x.norm(), lambda x, g: unit_gradient(x, g, place))

    found = diagnose(spoiled, draw(4096)).findings[0]

    assert found.rule == "gradient-mismatch"
    assert found.evidence["index"] == [place]
    right = saving(lambda x: x / x.norm(), lambda x, g: unit_gradient(x, g, slice(0)))
    assert diagnose(right, draw(4096)).ok


def nbytes(value: Any) -> int:
    """Return the number of bytes in the tensors of evidence."""
    if isinstance(value, Tensor):
        return value.nbytes
    parts = getattr(value, "__dict__", value)
    if isinstance(parts, dict):
        return sum(map(nbytes, parts.values()))
    return sum(map(nbytes, parts)) if isinstance(parts, tuple) else 0


@pytest.mark.thorough
def test_what_is_seen_of_a_large_input_is_some_times_its_size() -> None:
    cube = saving(lambda x: x**3, lambda x, g: 3 * x**2 * g)
    x = draw(500, 500)

    seen = collect_evidence(cube, (x,))[0]

    assert nbytes(seen) < 120 * x.nbytes


def test_what_would_not_find_room_is_refused_before_it_is_tried() -> None:
    with pytest.raises(
        CannotDiagnoseError,
        match=r"hold 1,099,511,627,776 numbers: diagnose needs .* smaller example",
    ):
        diagnose(Square, torch.ones(1).expand(2**40))


def transformed(transform: Any) -> Any:
    return lambda: transform(lambda x: diagnose(Square, x) and x.sum())(X)


def in_mode(mode: Any) -> Any:
    def run() -> None:
        with mode():
            diagnose(Square, X)

    return run


@pytest.mark.parametrize(
    ("run", "inside"),
    [
        (transformed(torch.func.grad), "transforms"),
        (transformed(torch.vmap), "transforms"),
        (in_mode(FakeTensorMode), "FakeTensorMode"),
        (in_mode(lambda: torch.device("meta")), "torch.device..meta"),
    ],
)
def test_where_tensors_have_no_numbers_nothing_is_judged(run: Any, inside: str) -> None:
    with pytest.raises(CannotDiagnoseError, match=f"call diagnose outside .*{inside}"):
        run()


def test_an_output_that_is_no_tensor_is_passed_over() -> None:
    assert diagnose(saving(lambda x: (2 * x, None), lambda x, g, _: 2 * g), (X,)).ok


def test_one_tensor_may_stand_alone() -> None:
    assert diagnose(Square, X).ok


def test_a_module_in_float32_is_examined_on_a_float64_copy() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return Linear.apply(x, self.weight)

    layer = Layer()

    assert diagnose(layer, X.float()).ok
    assert layer.weight.dtype == torch.float32


@torch.library.custom_op("tests::reversed", mutates_args=())
def reverse(x: Tensor) -> Tensor:
    return x.flip(0)


@reverse.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


reverse.register_autograd(lambda ctx, grad_output: reverse(grad_output))


def operator(name: str, forward: Any, fake: Any) -> Any:
    """Return a custom operator for sin, with this implementation and this fake implementation."""

    def sine(x: Tensor) -> Tensor:
        return forward(x)

    made = torch.library.custom_op(f"tests::{name}", sine, mutates_args=())
    if fake is not None:
        made.register_fake(fake)
    made.register_autograd(
        lambda ctx, grad_output: (grad_output * ctx.saved_tensors[0].cos()).to(grad_output.dtype),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return made


def in_float64(x: Tensor) -> Tensor:
    return x.double().sin()


def transposed(x: Tensor) -> Tensor:
    return x.mT.contiguous().sin().mT


OPERATORS = {
    "float64": (in_float64, torch.empty_like, "with dtype float64, but its fake implementation"),
    "strides": (transposed, torch.empty_like, "with strides (1, 3), but its fake implementation"),
    "shape": (torch.sin, lambda x: x[0].clone(), "with shape (3, 4), but its fake implementation"),
    "no_fake": (torch.sin, None, "because it has no fake implementation"),
    "reads": (
        torch.sin,
        lambda x: x.clone() if x.sum() > 0 else 2 * x,
        "because its fake implementation raises",
    ),
    "right": (torch.sin, torch.empty_like, ""),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_fake_implementation_is_compared_with_its_operator(name: str) -> None:
    forward, fake, says = OPERATORS[name]
    diagnosis = diagnose(operator(name, forward, fake), X.float(), level="full")

    told = [it for it in diagnosis.findings if it.rule == "compile-mismatch"]
    assert diagnosis.ok
    assert bool(told) == bool(says)
    assert not told or says in told[0].message


def test_a_report_on_a_custom_operator_says_nothing_about_pytorchs_own_function() -> None:
    diagnosis = diagnose(reverse, torch.randn(5), level="full")

    assert diagnosis.ok
    assert not diagnosis.findings
