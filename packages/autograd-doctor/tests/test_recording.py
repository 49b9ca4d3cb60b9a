"""``recording()``: the calls that it sees and keeps, its results, and what it must not do."""

from __future__ import annotations

import random
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor import ProgramDiagnosis, diagnose, program, recording
from autograd_doctor._interception import paused
from autograd_doctor._programs.recording import SMALL, WHOLE, Recorder, _copy, _smaller_lengths
from right import Square
from sampling import first_rows
from torch import Tensor, nn
from torch.autograd import Function
from torch.library import custom_op
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WRITTEN_IN_C = not hasattr(Function.apply, "__func__")  # from PyTorch 2.14 on


class Half(Square):
    """Wrong: returns half of the gradient."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x * grad_output


class Unweighted(Function):
    """Right as long as all weights are 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * weight

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output, (grad_output * x * x).sum(0)


class Scale(Function):
    """Right for x, but wrong for the factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, factor = ctx.saved_tensors
        return grad_output * factor, 2 * grad_output * x


class Through(Function):
    """Calls a callable that is the derivative of half its own square."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, call: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.call = call
        return call(x) + x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return ctx.call(grad_output) + grad_output, None


class Weighted(Function):
    """Takes a list of tensors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: list[Tensor]) -> Tensor:
        ctx.save_for_backward(*weights)
        return x * sum(weights)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * sum(ctx.saved_tensors), None


class WeightedTwice(Weighted):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return 2 * grad_output * sum(ctx.saved_tensors), None


class Rows(Function):
    """Selects rows of a table by index."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.length = len(table)
        return table[rows]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        zeros = grad_output.new_zeros(ctx.length, *grad_output.shape[1:])
        return zeros.index_add(0, rows, grad_output), None


class RowsTwice(Rows):
    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        gradient, _ = Rows.backward(ctx, grad_output)
        return 2 * gradient, None


class OnlyLarge(Square):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.numel() < 10_000:
            raise ValueError("too small")
        return Square.forward(ctx, x)


class DoubledInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * grad_output


class Raises(Square):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        raise ValueError("never")


class Waits(Square):
    """Waits forever on the doctor's copies, which are in float64."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            time.sleep(60)
        return Square.forward(ctx, x)


class Once(Square):
    calls = iter([True])

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        next(Once.calls)
        return Square.forward(ctx, x)


class Vmapped(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * grad_output


class Compiled(Square):
    pass


class Recomputes(Function):
    """Calls a module and takes the module's parameters as arguments, like a checkpoint."""

    @staticmethod
    def forward(ctx: Any, module: nn.Module, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.module = module
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return module(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            wanted = [x, *(it for it in parameters if it.requires_grad)]
            found = iter(torch.autograd.grad(ctx.module(x), wanted, grad_output))
        return (None, next(found), *(next(found) if p.requires_grad else None for p in parameters))


class Sigmoid(Function):
    """Saves its own slope, which has no graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.sigmoid()
        ctx.save_for_backward(y * (1 - y))
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return grad_output * slope


class Root(Function):
    """Returns one of many roots R of A = R Rᵀ. Right for losses that depend only on A."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        lengths, vectors = torch.linalg.eigh(a)
        ctx.save_for_backward(vectors / lengths.sqrt())
        return vectors * lengths.sqrt()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        found = grad_output @ inverse.mT / 2
        return (found + found.mT) / 2


class Natural(Function):
    """Returns the natural gradient instead of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 0.1 * grad_output * ctx.saved_tensors[0] ** 2


class Uniform(Function):
    """Right only if all elements of grad_output are equal."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * grad_output.mean()


class Positive(Function):
    """The absolute value, with the slope for positive numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.abs()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


def of_a_root(loss: Callable[[Tensor], Tensor]) -> None:
    factor = torch.randn(4, 4)
    loss(Root.apply((factor @ factor.mT + torch.eye(4)).requires_grad_())).backward()


def leaf(*shape: int) -> Tensor:
    return torch.randn(shape or (3, 4), requires_grad=True)


def run(function: type[Function], *args: Any) -> None:
    function.apply(*args).sum().backward()


def local(factor: float) -> type[Function]:
    class Local(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return factor * x

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return factor * grad_output

    return Local


def executed() -> type[Function]:
    scope: dict[str, Any] = {"Square": Square, "__name__": "executed"}
    exec(
        "class Made(Square):\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad_output):\n"
        "        return 3 * ctx.saved_tensors[0] * grad_output\n",
        scope,
    )
    made: type[Function] = scope["Made"]
    return made


def compiled() -> None:
    call = torch.compile(lambda x: Compiled.apply(x).sum(), backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that it creates a Function instance
        call(leaf()).backward()


def penalized() -> None:
    """Differentiate a gradient whose graph lacks a part."""
    x = leaf()
    (gradient,) = torch.autograd.grad(Sigmoid.apply(x).sum(), x, create_graph=True)
    (gradient.square().sum() + x.sum()).backward()


def ignoring_errors(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="never"):
        call()


def without_grad() -> None:
    with torch.no_grad():
        Half.apply(leaf())
    Half.apply(torch.ones(3))


@custom_op("recorded::scaled_square", mutates_args=())
def scaled_square(x: Tensor, scale: float = 1.0, *, offset: float = 0.0) -> Tensor:
    return scale * x * x + offset


def scaled_square_setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    x, ctx.scale = inputs
    ctx.save_for_backward(x)
    ctx.offset = keyword_only_inputs["offset"]


def scaled_square_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
    """Return the gradient, which is wrong if the offset is not zero."""
    (x,) = ctx.saved_tensors
    return (2 - bool(ctx.offset)) * ctx.scale * x * grad_output, None


scaled_square.register_autograd(scaled_square_backward, setup_context=scaled_square_setup)


@custom_op("recorded::joined", mutates_args=())
def joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts)


joined.register_autograd(
    lambda ctx, grad_output: list(grad_output.split(ctx.sizes)),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "sizes", [len(it) for it in inputs[0]]),
)


@custom_op("recorded::without_a_derivative", mutates_args=())
def without_a_derivative(x: Tensor) -> Tensor:
    return x.clone()


module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
PROGRAMS: dict[str, tuple[Callable[[], object], str]] = {
    "right": (lambda: run(Square, leaf()), "✓"),
    "wrong": (lambda: run(Half, leaf()), "✗ constant-factor"),
    "wrong where nobody asks": (
        lambda: run(Scale, leaf(4), torch.randn(4)),
        "✓ (notes: wasted-gradient)",
    ),
    "wrong where somebody asks": (lambda: run(Scale, leaf(4), leaf(4)), "✗ constant-factor"),
    "nothing to differentiate": (without_grad, "not examined: 0 differentiated calls"),
    "a callable": (lambda: run(Through, leaf(), lambda x: 2 * x), "✓"),
    "a list": (lambda: run(Weighted, leaf(4), [torch.randn(4), torch.randn(4)]), "✓"),
    "a list, wrong": (lambda: run(WeightedTwice, leaf(4), [torch.randn(4)]), "✗ constant-factor"),
    "a gradient penalty": (penalized, "⚠ silent-double-backward"),
    "huge": (lambda: run(Rows, leaf(4000, 50), torch.randint(4000, (900,))), "✓"),
    "huge, wrong": (
        lambda: run(RowsTwice, leaf(4000, 50), torch.randint(4000, (900,))),
        "✗ constant-factor",
    ),
    "huge, and a small copy is refused": (
        lambda: run(OnlyLarge, leaf(50_000)),
        "not examined: its calls hold many numbers, and it raises an error on a smaller copy of "
        "one: `forward` raises ValueError: too small",
    ),
    "in place": (lambda: run(DoubledInPlace, leaf() * 1), "✓"),
    "a module and its parameters": (
        lambda: run(Recomputes, module, leaf(2, 4), *module.parameters()),
        "✓ (notes: silent-double-backward, wasted-gradient)",
    ),
    "raises": (lambda: ignoring_errors(lambda: run(Raises, leaf())), "not examined: no call"),
    "waits": (lambda: run(Waits, leaf()), "not examined: diagnose did not end within 1 s"),
    "runs once": (lambda: run(Once, leaf()), "not examined: its recorded call fails when it is"),
    "under a transform": (
        lambda: torch.func.vmap(Vmapped.apply)(leaf()),
        "not examined: every call was inside a transform of torch.func",
    ),
    "compiled": (compiled, "not examined: it ran only inside torch.compile"),
    "right for the program's own cotangents": (
        lambda: of_a_root(lambda root: (torch.randn(4, 4) * (root @ root.mT)).sum()),
        "⚠ gradient-mismatch",
    ),
    "wrong for the program's own cotangents": (
        lambda: of_a_root(lambda root: (torch.randn(4, 4) * root).sum()),
        "✗ gradient-mismatch",
    ),
    "wrong where the program runs no backward": (
        lambda: [run(Positive, leaf().abs()), Positive.apply(-leaf(9).abs())],
        "⚠ flipped-sign",
    ),
    "wrong for other weights": (
        lambda: run(Unweighted, leaf(), torch.ones(4, requires_grad=True)),
        "⚠ gradient-mismatch",
    ),
    "wrong, and the program runs no backward": (lambda: Half.apply(leaf()), "✗ constant-factor"),
    "right by chance, for equal cotangents": (lambda: run(Uniform, leaf()), "✗ uniform-grad-out"),
    "by design, as its source says": (
        lambda: run(Natural, leaf()),
        "✗ constant-factor (a natural gradient?)",
    ),
    "local": (lambda: [run(local(k), leaf()) for k in (1.0, 2.0)], "✓"),
    "an operator": (lambda: scaled_square(leaf(), 3.0).sum().backward(), "✓"),
    "an operator, wrong for its keyword-only argument": (
        lambda: scaled_square(leaf(), offset=1.0).sum().backward(),
        "✗ constant-factor",
    ),
    "an operator on lists": (
        lambda: joined([leaf(), leaf()]).sum().backward(),
        "not examined: the operator takes or returns lists of tensors",
    ),
    "by exec": (lambda: run(executed(), leaf()), "✗ constant-factor"),
}


@pytest.mark.parametrize("program", first_rows(PROGRAMS, most=9))
def test_each_kind_of_call_gets_its_verdict(program: str) -> None:
    play, verdict = PROGRAMS[program]
    with recording() as calls:
        play()

    result = calls.diagnose(seconds=4 if "within 1 s" in verdict else 60)
    assert len(result.rows) == 1, result
    assert result.rows[0].verdict.startswith(verdict), result
    assert result.ok is {"✓": True, "⚠": True, "✗": False, "n": None}[verdict[0]]


@pytest.mark.parametrize("seed", [12, 14, 23])
def test_a_solution_that_float64_or_a_small_change_replaces_by_another_is_no_error(
    seed: int,
) -> None:
    torch.manual_seed(seed)  # the sign of an eigenvector is not the same

    with recording() as calls:
        PROGRAMS["right for the program's own cotangents"][0]()

    assert calls.diagnose().rows[0].verdict.startswith("⚠ gradient-mismatch")


def test_a_silent_second_derivative_is_reported_if_the_program_asks_for_it() -> None:
    with recording() as calls:
        penalized()

    result = calls.diagnose()
    assert "silent-double-backward: The gradient of" in result.rows[0].report
    assert result.ok


def test_an_operator_is_listed_by_its_name_where_its_backward_is_defined() -> None:
    with recording() as calls:
        scaled_square(leaf()).sum().backward()
        without_a_derivative(leaf())

    (row,) = calls.diagnose().rows
    line = scaled_square_backward.__code__.co_firstlineno
    assert (row.function, row.calls) == ("recorded::scaled_square", 1)
    assert row.where.endswith(f"test_recording.py:{line}")


def test_a_report_says_what_is_wrong_for_other_inputs() -> None:
    play, _ = PROGRAMS["wrong where the program runs no backward"]
    with recording() as calls:
        play()

    text = str(calls.diagnose())

    assert "No error shows where this program runs `backward`" in " ".join(text.split())
    assert "warning, flipped-sign" in text


def test_the_report_of_a_warning_about_other_inputs_follows_the_table() -> None:
    play, _ = PROGRAMS["wrong for other weights"]
    with recording() as calls:
        play()

    assert "✓ Unweighted · no error, 1 warning\n  warning, gradient-mismatch" in str(
        calls.diagnose()
    )


# The table


@pytest.fixture(scope="module")
def result() -> ProgramDiagnosis:
    with recording() as calls:
        for size in (3, 5):
            run(Half, leaf(size))
            run(Square, leaf(size))
        without_grad()
    return calls.diagnose()


def test_the_table_tells_function_place_calls_and_verdict(result: ProgramDiagnosis) -> None:
    head, square, half, *_ = str(result).splitlines()

    assert head.split("  ")[0] == "Function"
    assert half.split()[0::2][:2] == ["Half", "4"]
    assert "test_recording.py:" in half
    assert half.endswith("✗ constant-factor")
    assert square.endswith("  2  ✓")


def test_the_place_is_the_line_of_the_class(result: ProgramDiagnosis) -> None:
    _, _, line = result.rows[1].where.rpartition(":")

    with open(__file__, encoding="utf-8") as file:
        assert file.read().splitlines()[int(line) - 1] == "class Half(Square):"


def test_reports_follow_of_what_is_wrong_alone(result: ProgramDiagnosis) -> None:
    assert "✗ Half · wrong\n  constant-factor: The gradient of `x` is 1/2 times" in str(result)
    assert "Square ·" not in str(result)


def test_the_result_is_data(result: ProgramDiagnosis) -> None:
    data = result.to_dict()

    assert data["version"] == 1
    assert data["ok"] is False
    square, half = data["functions"]
    assert half["function"] == f"{__name__}.Half"
    assert (half["calls"], half["differentiated"], half["ok"]) == (4, True, False)
    assert half["findings"][0]["rule"] == "constant-factor"
    assert half["new"] == ["constant-factor"]
    assert half["findings"][0]["repair"]["changes"][0]["after"]
    assert (square["ok"], square["findings"]) == (True, [])


def test_another_process_reads_the_same(result: ProgramDiagnosis) -> None:
    assert program.unpacked(program.packed(result)).to_json() == result.to_json()


def test_what_several_processes_saw_is_added_up(result: ProgramDiagnosis) -> None:
    both = program.merged([result, result])

    assert [row.calls for row in both.rows] == [2 * row.calls for row in result.rows]
    assert [row.verdict for row in both.rows] == [row.verdict for row in result.rows]


def test_without_a_call_the_table_says_so() -> None:
    with recording() as calls:
        torch.ones(3).sum()

    assert str(calls.diagnose()) == "No custom autograd Function was called."
    assert calls.diagnose().ok is True


# Observed calls


@pytest.mark.skipif(WRITTEN_IN_C, reason="apply is written in C, so an older alias is not seen")
def test_an_alias_made_before_is_seen() -> None:
    square = Half.apply
    with recording() as calls:
        square(leaf())

    assert calls.diagnose().rows[0].calls == 1


def test_recordings_may_overlap_and_end_in_any_order() -> None:
    first, second = Recorder(), Recorder()
    x = leaf()
    first.start()
    Square.apply(x)
    second.start()
    Square.apply(x)
    first.stop()
    Square.apply(x)
    second.stop()
    Square.apply(x)

    assert [recorder.functions[0].calls for recorder in (first, second)] == [2, 2]


def test_afterwards_apply_is_what_it_was() -> None:
    before = vars(Function)["apply"], getattr(Function.apply, "__code__", None)
    with recording():
        during = vars(Function)["apply"], getattr(Function.apply, "__code__", None)

    assert (vars(Function)["apply"], getattr(Function.apply, "__code__", None)) == before
    assert during != before


def test_what_the_doctor_calls_is_not_seen() -> None:
    with recording() as calls:
        diagnose(Square, torch.randn(3))
        with paused():
            Square.apply(leaf())

    assert not calls.diagnose().rows


def test_calls_of_other_threads_are_counted() -> None:
    with recording() as calls:
        threads = [
            threading.Thread(target=lambda: [run(Square, leaf(3)) for _ in range(50)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert calls.diagnose().rows[0].calls == 200


# Kept calls


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    recorder.start()
    yield recorder
    recorder.stop()


def kept(recorder: Recorder) -> list[Any]:
    (function,) = recorder.functions
    return function.best


def test_a_call_is_copied_before_it_is_made(recorder: Recorder) -> None:
    x = leaf() * 1
    before = x.detach().clone()
    DoubledInPlace.apply(x)

    (call,) = kept(recorder)
    assert call.args[0].equal(before)
    assert call.args[0].requires_grad


def test_three_distinct_calls_are_kept(recorder: Recorder) -> None:
    for size in (9, 9, 10, 11, 12, 13):
        run(Square, leaf(size))

    assert [call.size for call in kept(recorder)] == [9, 10, 11]


def test_small_calls_take_the_place_of_large_ones(recorder: Recorder) -> None:
    for size in (1000, 900, 800, 20, 30, 2):
        run(Square, leaf(size))

    assert [call.size for call in kept(recorder)] == [20, 30, 800]


def test_a_call_whose_backward_ran_comes_first(recorder: Recorder) -> None:
    Square.apply(leaf(9))
    run(Square, leaf(20))

    assert [(call.size, call.backward_ran) for call in kept(recorder)] == [(20, True), (9, False)]


def test_a_call_gives_way_to_a_better_one_among_others_of_its_kind(recorder: Recorder) -> None:
    for shape in ((10,), (1, 1000), (1, 10), (30,)):
        run(Square, leaf(*shape))

    assert [call.size for call in kept(recorder)] == [10, 10, 30]
    assert recorder.failure == ""


def test_backward_of_a_later_call_counts_for_its_like(recorder: Recorder) -> None:
    Square.apply(leaf(9))
    run(Square, leaf(9))

    assert [call.backward_ran for call in kept(recorder)] == [True]


def test_a_call_that_raises_is_not_kept(recorder: Recorder) -> None:
    ignoring_errors(lambda: run(Raises, leaf()))

    assert not kept(recorder)


def test_a_large_call_is_kept_as_a_smaller_one(recorder: Recorder) -> None:
    positions = torch.arange(4000)
    Rows.apply(leaf(4000, 30), positions)

    (call,) = kept(recorder)
    table, rows = call.args
    assert call.shrunk
    assert table.shape[0] == rows.shape[0] < 4000
    assert table.requires_grad
    assert table.numel() + rows.numel() <= SMALL
    assert int(rows.max()) < len(table)


def test_a_call_of_some_size_is_kept_as_it_is(recorder: Recorder) -> None:
    Square.apply(leaf(WHOLE))

    assert [(call.size, call.shrunk) for call in kept(recorder)] == [(WHOLE, False)]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(5000, 64), (64, 5000)], [(16, 8), (8, 16)]),
        ([(8, 1024, 1024)], [(8, 9, 9)]),
        ([(100_001,)], [(33,)]),
    ],
)
def test_equal_lengths_stay_equal_and_keep_their_order(
    shapes: list[tuple[int, ...]], expected: list[tuple[int, ...]]
) -> None:
    tensors = tuple(torch.empty(shape) for shape in shapes)
    lengths = _smaller_lengths(tensors)
    copies = _copy(tensors, lengths)

    for copy, shape in zip(copies, expected, strict=True):
        assert copy.dim() == len(shape)
    sizes = [length for copy in copies for length in copy.shape]
    wanted = [length for shape in shapes for length in shape]
    assert sum(copy.numel() for copy in copies) <= SMALL
    for one, small in zip(wanted, sizes, strict=True):
        for other, little in zip(wanted, sizes, strict=True):
            assert (one < other) == (small < little)
            assert (one == other) == (small == little)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor([0, 7, 4095]), [0, 7, 15]),  # positions
        (torch.tensor([0, 8, 4096]), [0, 8, 16]),  # offsets, up to the end
        (torch.tensor([3, 9]), [3, 9]),
        (torch.tensor([5000]), [5000]),
        (4096, 16),  # a length as an argument
        ((2, 4096), (2, 16)),
        (True, True),
        ("4096", "4096"),
    ],
)
def test_positions_and_lengths_follow(value: Any, expected: Any) -> None:
    copy = _copy(value, {4096: 16})

    assert (copy.tolist() if isinstance(copy, Tensor) else copy) == expected


# Effects that the program must not notice


def training(seed: int = 0) -> tuple[Any, ...]:
    """Train for a few steps with dropout and all generators.

    Return all numbers and random states.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    weight = torch.randn(20, 20, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    losses = []
    for _ in range(20):
        x = nn.functional.dropout(torch.randn(8, 20), 0.5) * random.random() * np.random.rand()
        loss = Half.apply(Square.apply(x @ weight)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return (
        torch.stack(losses),
        weight.detach(),
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
    )


def test_results_and_random_states_are_the_same_bit_for_bit() -> None:
    plain = training()
    with recording() as calls:
        recorded = training()
        calls.diagnose()
        examined = random.getstate(), torch.get_rng_state()

    for one, other in zip(plain, recorded, strict=True):
        assert one.equal(other) if isinstance(one, Tensor) else one == other
    assert examined[0] == plain[3]
    assert examined[1].equal(plain[2])


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("mode", [Functions, Operations])
def test_a_mode_of_the_program_sees_none_of_our_operations(mode: type[Any]) -> None:
    def seen() -> list[str]:
        x = leaf()
        with mode() as active:
            run(Square, x)
        return active.seen  # type: ignore[no-any-return]

    plain = seen()
    with recording() as calls:
        assert seen() == plain
    assert calls.diagnose().rows[0].examined == 1


def test_an_exception_is_the_functions_own() -> None:
    with recording(), pytest.raises(ValueError, match="never") as raised:
        Raises.apply(leaf())

    assert raised.value.__cause__ is raised.value.__context__ is None


def test_a_call_with_wrong_arguments_fails_as_it_does_alone() -> None:
    with pytest.raises(TypeError) as alone:
        Vmapped.apply(leaf(), wrong=1)
    with recording() as calls, pytest.raises(TypeError) as recorded:
        Vmapped.apply(leaf(), wrong=1)

    assert str(recorded.value) == str(alone.value)
    assert calls.diagnose().notes == ()


def test_a_tensor_of_the_program_is_not_kept_alive() -> None:
    with recording() as calls:
        x = leaf()
        output = Square.apply(x)
        output.sum().backward()
        known = weakref.ref(x), weakref.ref(output)
        del x, output
        assert [ref() for ref in known] == [None, None]
    assert calls.diagnose().rows[0].examined == 1


def test_a_class_of_which_nothing_is_kept_is_not_kept_alive() -> None:
    with recording():
        made = local(2.0)
        made.apply(torch.ones(3))
        known = weakref.ref(made)
        del made
        import gc

        gc.collect()
        assert known() is None


@pytest.mark.parametrize("method", ["_look", "_keep", "_first_seen"])
def test_a_fault_of_ours_is_a_sentence_below_the_table(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(Recorder, method, fail)
    with recording() as calls:
        run(Square, leaf())

    assert calls.diagnose().notes == (
        "autograd-doctor failed while it recorded calls (KeyError: 'ours').",
    )


def test_a_fault_of_diagnose_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise ZeroDivisionError("ours")

    with recording() as calls:
        run(Half, leaf())
    monkeypatch.setattr("autograd_doctor._programs.examination.diagnose", fail)

    assert calls.diagnose().rows[0].verdict == (
        "not examined: diagnose failed: ZeroDivisionError: ours"
    )


def test_time_that_is_used_up_is_told() -> None:
    with recording() as calls:
        for size in (9, 10):
            run(Square, leaf(size))

    assert calls.diagnose(seconds=0).rows[0].verdict == "not examined: the 0 s were used up"
    assert calls.diagnose().rows[0].verdict == "✓"
