"""Facts about PyTorch in lesson 02. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from made import leaf, make, squaring
from torch import Tensor
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.slow

MODIFIED = "modified by an inplace operation"


def saving(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return x * x


def on_ctx(ctx: Any, x: Tensor) -> Tensor:
    ctx.x = x
    return x * x


Saved = make(saving, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
OnCtx = make(on_ctx, lambda ctx, g: 2 * ctx.x * g)


def output_on_ctx(ctx: Any, x: Tensor) -> Tensor:
    ctx.y = x.exp()
    return ctx.y  # type: ignore[no-any-return]


def output_saved(ctx: Any, x: Tensor) -> Tensor:
    y = x.exp()
    ctx.save_for_backward(y)
    return y


def intermediate_on_ctx(ctx: Any, x: Tensor) -> Tensor:
    ctx.s = x.sigmoid()
    return x * ctx.s  # type: ignore[no-any-return]


# What ctx is, and how long it lives


def living(ctx: Any, x: Tensor, seen: list[Any]) -> Tensor:
    seen.append(weakref.ref(ctx))
    return 2 * x


Living = make(living, lambda ctx, g: (2 * g, None))


def test_ctx_lives_as_long_as_an_output_and_outlives_backward() -> None:
    seen: list[Any] = []
    y = Living.apply(leaf(1.0), seen)
    y.sum().backward()
    assert seen[0]() is y.grad_fn
    del y
    assert seen[0]() is None


def test_ctx_is_gone_at_once_where_nothing_asks_for_a_gradient() -> None:
    seen: list[Any] = []
    with torch.no_grad():
        y = Living.apply(leaf(1.0), seen)
    z = Living.apply(torch.ones(1), seen)
    assert [node() for node in seen] == [None, None]
    assert (y.grad_fn, z.grad_fn) == (None, None)


def test_each_call_has_a_ctx_of_its_own() -> None:
    x = leaf(1.0)
    first, second = OnCtx.apply(x), OnCtx.apply(2 * x)
    assert first.grad_fn is not second.grad_fn
    assert first.grad_fn.x is x


# save_for_backward, and what goes wrong otherwise


@pytest.mark.parametrize("function", [Saved, OnCtx], ids=["saved", "attribute"])
def test_gradcheck_does_not_tell_where_a_tensor_is_kept(function: type[Function]) -> None:
    assert gradcheck(function.apply, leaf(1.0, 2.0))


def test_a_saved_tensor_is_checked_for_changes_and_an_attribute_is_not() -> None:
    x = leaf(3.0)
    hidden = 1 * x
    y = Saved.apply(hidden)
    hidden += 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()

    hidden = 1 * x
    y = OnCtx.apply(hidden)
    hidden += 1
    assert torch.autograd.grad(y, x)[0].item() == 8  # the true gradient is 6


@pytest.mark.parametrize("steps", [False, True], ids=["a write", "an optimizer's step"])
def test_a_write_under_no_grad_counts_for_the_version_check(steps: bool) -> None:
    weight = leaf(3.0)
    y = Saved.apply(weight)
    if steps:
        weight.grad = torch.ones_like(weight)
        torch.optim.SGD([weight], lr=0.1).step()
    else:
        with torch.no_grad():
            weight -= 0.1
    assert weight._version == 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_an_inference_tensor_has_no_version_and_cannot_be_saved() -> None:
    with torch.inference_mode():
        weight = torch.ones(1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = weight._version

    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return weight * x

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        make(forward, lambda ctx, g: (g, None)).apply(leaf(1.0), weight)


def test_hooks_see_a_saved_tensor_and_no_attribute() -> None:
    seen: list[int] = []
    with saved_tensors_hooks(lambda t: seen.append(t.numel()) or t, lambda t: t):
        Saved.apply(torch.ones(3, requires_grad=True))
        OnCtx.apply(torch.ones(5, requires_grad=True))
    assert seen == [3]


@pytest.mark.parametrize(("function", "survives"), [(Saved, False), (OnCtx, True)])
def test_checkpoint_misses_an_attribute(function: type[Function], survives: bool) -> None:
    hidden: list[Any] = []

    def block(x: Tensor) -> Tensor:
        h = x + 1
        hidden.append(weakref.ref(h))
        return function.apply(h)  # type: ignore[no-any-return]

    y = checkpoint(block, leaf(1.0), use_reentrant=False)
    assert (hidden[0]() is not None) == survives
    assert y.requires_grad


@pytest.mark.parametrize(("function", "kept"), [(Saved, False), (OnCtx, True)])
def test_backward_frees_a_saved_tensor_and_no_attribute(
    function: type[Function], kept: bool
) -> None:
    hidden = 1 * leaf(1.0)
    watched = weakref.ref(hidden)
    y = function.apply(hidden)
    del hidden
    y.backward()
    assert (watched() is not None) == kept


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    ("forward", "alive"), [(output_on_ctx, 5), (output_saved, 0), (intermediate_on_ctx, 0)]
)
def test_an_output_on_ctx_is_a_cycle_until_the_collector_runs(
    forward: Callable[..., Tensor], alive: int
) -> None:
    made = make(forward, lambda ctx, g: g)
    nodes = [weakref.ref(made.apply(leaf(1.0)).grad_fn) for _ in range(5)]
    assert sum(node() is not None for node in nodes) == alive
    gc.collect()
    assert sum(node() is not None for node in nodes) == 0


def test_a_saved_output_comes_back_with_its_node() -> None:
    y = make(output_saved, lambda ctx, g: g).apply(leaf(1.0))
    (saved,) = y.grad_fn.saved_tensors
    assert saved is not y
    assert saved.data_ptr() == y.data_ptr()
    assert saved.grad_fn is y.grad_fn


def test_a_number_in_save_for_backward_raises_after_forward() -> None:
    passed: list[str] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, 3)
        passed.append("the call")
        return x * x

    with pytest.raises(TypeError, match="can only save variables, but argument 1 is of type int"):
        make(forward, lambda ctx, g: g).apply(leaf(1.0))
    assert passed == ["the call"]


def test_none_may_be_saved() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, None)
        return x * x

    y = make(forward, lambda ctx, g: g).apply(leaf(1.0))  # PyTorch 2.11 frees None with the output
    assert y.grad_fn.saved_tensors[1] is None


def test_saved_tensors_in_forward_is_an_empty_tuple() -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        seen.append(ctx.saved_tensors)
        return x * x

    make(forward, lambda ctx, g: g).apply(leaf(1.0))
    assert seen == [()]


def test_save_for_backward_only_stores_its_arguments_in_setup_context_too() -> None:
    seen: list[Any] = []

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        seen.append(ctx.saved_tensors)

    power = make(lambda x, exponent: x**exponent, lambda ctx, g: (g, None))
    power.setup_context = staticmethod(setup_context)  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="can only save variables, but argument 1 is of type int"):
        power.apply(leaf(1.0), 3)
    assert seen == [()]


def test_a_second_save_for_backward_replaces_the_first() -> None:
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_backward(y)
        return x * y

    x, y = leaf(1.0), leaf(2.0)
    assert make(forward, lambda ctx, g: (g, g)).apply(x, y).grad_fn.saved_tensors == (y,)


# needs_input_grad


@pytest.mark.parametrize("asks", [False, True])
def test_needs_input_grad_is_efficiency_not_correctness(asks: bool) -> None:
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return g @ weight.T, x.T @ g if ctx.needs_input_grad[1] or not asks else None

    x, frozen = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
    y = make(forward, backward).apply(x, frozen).sum()
    with FlopCounterMode(display=False) as counter:
        y.backward()
    assert counter.get_total_flops() == (1 if asks else 2) * 2 * 2 * 3 * 4
    assert frozen.grad is None
    assert x.grad.tolist() == [[4.0] * 3] * 2


# What backward must not touch


def test_a_change_of_grad_output_reaches_a_sibling_and_passes_gradcheck() -> None:
    twice = make(lambda ctx, x: 2 * x, lambda ctx, g: g.mul_(2)).apply
    x, a = leaf(1.0, 1.0), leaf(1.0, 1.0)
    assert gradcheck(twice, x)
    _, grad_a = torch.autograd.grad(twice(x) + a, (x, a), torch.ones_like(x))
    assert grad_a.tolist() == [2.0, 2.0]  # the true gradient is 1


@pytest.mark.parametrize(("skip_first", "grad"), [(True, 2.0), (False, 1.0)])
def test_whether_a_sibling_suffers_depends_on_the_order_of_nodes(
    skip_first: bool, grad: float
) -> None:
    twice = make(lambda ctx, x: 2 * x, lambda ctx, g: g.mul_(2)).apply
    x, a = leaf(1.0), leaf(1.0)
    if skip_first:  # the node that was created last runs first in backward
        skip, y = 1 * a, twice(x)
    else:
        y, skip = twice(x), 1 * a
    (y + skip).backward()
    assert a.grad.item() == grad


def test_a_change_of_grad_output_raises_only_where_g_itself_asks_for_a_gradient() -> None:
    twice = make(lambda ctx, x: 2 * x, lambda ctx, g: g.mul_(2)).apply
    with pytest.raises(RuntimeError, match="leaf Variable"):
        gradgradcheck(twice, leaf(1.0, 2.0))


def test_a_saved_tensor_is_the_callers_and_a_change_raises_at_the_second_backward() -> None:
    scribbling = squaring(lambda x, g: x.mul_(2 * g)).apply
    x = leaf(1.0, 3.0)
    hidden = 1 * x
    y = scribbling(hidden).sum()
    (gradient,) = torch.autograd.grad(y, x, retain_graph=True)
    assert gradient.tolist() == [2.0, 6.0]
    assert hidden.tolist() == [2.0, 6.0]
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


# .data and .detach()


def test_a_write_through_detach_counts_and_one_through_data_does_not() -> None:
    hidden = 1 * leaf(1.0)
    hidden.data.add_(1)
    assert hidden._version == 0
    hidden.detach().add_(1)
    assert hidden._version == 1


@pytest.mark.parametrize("cut", [lambda t: t.data, Tensor.detach], ids=["data", "detach"])
@pytest.mark.parametrize("of", ["saved tensor", "grad_output"])
def test_a_cut_history_in_backward_passes_gradcheck_and_not_gradgradcheck(
    cut: Callable[[Tensor], Tensor], of: str
) -> None:
    if of == "grad_output":
        f = squaring(lambda x, g: 2 * x * cut(g)).apply
    else:
        f = squaring(lambda x, g: 2 * cut(x) * g).apply
    x = leaf(1.0, 2.0)
    assert gradcheck(f, x)
    assert not gradgradcheck(f, x, raise_exception=False)


# A frozen target


def test_the_gradient_of_a_mean_has_its_1_over_n() -> None:
    x, target, weight = leaf(1.0, 2.0, 3.0, 5.0), leaf(2.0, 0.0, 3.0, 4.0), leaf(1.0, 1.0, 2.0, 3.0)
    fixed, w = target.detach(), weight.detach()
    without = make(
        lambda ctx, x: ctx.save_for_backward(x) or ((x - fixed) ** 2 * w).mean(),
        lambda ctx, g: 2 * (ctx.saved_tensors[0] - fixed) * w * g,
    ).apply
    assert not gradcheck(without, x, raise_exception=False)
    (true,) = torch.autograd.grad(((x - fixed) ** 2 * w).mean(), x)
    assert torch.equal(torch.autograd.grad(without(x), x)[0], 4 * true)


def test_a_marked_output_has_no_gradient_and_raises_only_if_differentiated_alone() -> None:
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        mask = (x > 0).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        return x * mask, mask

    x = leaf(-1.0, 2.0)
    kept, mask = make(forward, lambda ctx, g, _: g).apply(x)
    assert not mask.mean().requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(mask.mean(), x)
    (kept.sum() + mask.mean()).backward()


# mark_dirty, and returning an input


def doubling(mark: bool) -> Callable[..., Tensor]:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        if mark:
            ctx.mark_dirty(x)
        return x

    return make(forward, lambda ctx, g: 2 * g).apply  # type: ignore[no-any-return]


def test_mark_dirty_moves_the_input_itself_to_the_new_node() -> None:
    x = leaf(3.0)
    hidden = 1 * x
    assert doubling(mark=True)(hidden) is hidden
    assert (hidden.item(), torch.autograd.grad(hidden, x)[0].item()) == (6, 2)


def test_without_a_mark_the_values_are_new_and_the_history_is_old() -> None:
    x = leaf(3.0)
    hidden = 1 * x
    doubling(mark=False)(hidden)
    assert (hidden.item(), torch.autograd.grad(hidden, x)[0].item()) == (6, 1)


def test_a_marked_tensor_must_be_returned() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x.mul_(2))
        return x.clone()

    with pytest.raises(RuntimeError, match=r"marked as dirty .* were not returned as output"):
        make(forward, lambda ctx, g: 2 * g).apply(1 * leaf(1.0))


def test_a_leaf_may_not_be_marked_dirty() -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        doubling(mark=True)(leaf(1.0))


def test_a_mark_on_an_unchanged_tensor_raises_its_version() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x

    x = leaf(0.0)
    hidden = x.exp()
    y = make(forward, lambda ctx, g: g).apply(hidden)
    assert hidden._version == 1
    with pytest.raises(RuntimeError, match=MODIFIED):
        y.backward()


def test_a_returned_input_is_a_view_and_cannot_be_written_to() -> None:
    hidden = 1 * leaf(1.0)
    y = make(lambda ctx, x: x, lambda ctx, g: -g).apply(hidden)
    assert y is not hidden
    assert y._is_view()
    with pytest.raises(
        RuntimeError, match=r"Output 0 of Made(Backward)? is a view and is being modified"
    ):
        y.relu_()
    copy = make(lambda ctx, x: x.clone(), lambda ctx, g: -g).apply(hidden)
    assert torch.autograd.grad(copy.relu_(), hidden)[0].item() == -1


def test_a_detached_input_can_be_written_to_and_changes_the_input() -> None:
    hidden = 1 * leaf(-1.0, 2.0)
    make(lambda ctx, x: x.detach(), lambda ctx, g: -g).apply(hidden).relu_()
    assert hidden.tolist() == [0.0, 2.0]


# Outputs without a gradient


def test_integer_and_boolean_outputs_are_non_differentiable_and_float_masks_are_not() -> None:
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        return 2 * x, x > 0, x.argsort(), (x > 0).to(x.dtype)

    outputs = make(forward, lambda ctx, *g: 2 * g[0]).apply(leaf(1.0, 2.0))
    assert [out.requires_grad for out in outputs] == [True, False, False, True]


@pytest.mark.parametrize(("materialize", "arrives"), [(True, [0.0, 0.0]), (False, None)])
def test_backward_has_a_parameter_for_a_marked_output(materialize: bool, arrives: Any) -> None:
    got: list[Any] = []

    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(materialize)
        mask = (x > 0).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        return 2 * x, mask

    def backward(ctx: Any, g: Tensor, grad_mask: Any) -> Tensor:
        got.append(grad_mask)
        return 2 * g

    y, mask = make(forward, backward).apply(leaf(1.0, 2.0))
    y.sum().backward()
    assert not mask.requires_grad
    assert [None if g is None else g.tolist() for g in got] == [arrives]


@pytest.mark.parametrize(("materialize", "after"), [(True, 0.95**10), (False, 1.0)])
def test_weight_decay_moves_a_parameter_with_a_gradient_of_zeros(
    materialize: bool, after: float
) -> None:
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(materialize)
        return 2 * a, 3 * b

    f = make(forward, lambda ctx, *g: tuple(None if h is None else 2 * h for h in g)).apply
    a, b = leaf(1.0), leaf(1.0)
    optimizer = torch.optim.SGD([a, b], lr=0.1, weight_decay=0.5)
    for _ in range(10):
        optimizer.zero_grad()
        f(a, b)[0].backward()
        optimizer.step()
    assert b.item() == pytest.approx(after)


# setup_context


def test_setup_context_gets_the_output_that_apply_returns() -> None:
    """So if an output is stored on ctx, it also creates a cycle in this form."""
    f = make(lambda x: x.exp(), lambda ctx, g: ctx.y * g)
    f.setup_context = staticmethod(lambda ctx, inputs, output: setattr(ctx, "y", output))  # type: ignore[method-assign]
    y = f.apply(leaf(1.0))
    assert y.grad_fn.y is y


def test_torch_func_needs_a_separate_setup_context() -> None:
    separate = make(lambda x: 2 * x, lambda ctx, g: 2 * g)
    separate.setup_context = staticmethod(lambda ctx, inputs, output: None)  # type: ignore[method-assign]
    x = torch.ones(())
    assert torch.func.grad(separate.apply)(x).item() == 2
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        torch.func.grad(make(lambda ctx, x: 2 * x, lambda ctx, g: 2 * g).apply)(x)


# Messages that the lesson provokes but no test above covers


def test_a_second_backward_after_freeing_raises() -> None:
    y = Saved.apply(leaf(1.0))
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_what_leads_to_no_parameter_has_no_grad_fn() -> None:
    mask = make(lambda ctx, x: x > 0, lambda ctx, g: g).apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        mask.sum().backward()


@pytest.mark.parametrize("inside", [lambda x: [x], lambda x: {"x": x}], ids=["list", "dict"])
def test_a_tensor_in_a_list_or_a_dict_gets_no_gradient(inside: Callable[[Tensor], Any]) -> None:
    def forward(ctx: Any, given: Any) -> Tensor:
        (x,) = given.values() if isinstance(given, dict) else given
        return 2 * x  # type: ignore[no-any-return]

    y = make(forward, lambda ctx, g: None).apply(inside(leaf(1.0)))
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        y.backward()


def test_a_direct_call_only_warns() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        result = Saved(leaf(1.0))
    assert not isinstance(result, Tensor)
