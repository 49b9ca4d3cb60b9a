"""Answers to the exercises of lesson 15."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export import Dim

from answers.lesson_15_others import (
    ALSO_BITS,
    ALSO_SORTERS,
    ALSO_TRANSLATED,
    WRONG_BITS,
    WRONG_SORTERS,
    WRONG_TRANSLATIONS,
)
from answers.making import Wrong, double, solved

SOLVED = solved("15_ship_it")
RIGHT = {
    "any-batch": SOLVED["ship"],
    "lost-gradients": SOLVED["lost_gradients"],
    "reversal-that-travels": SOLVED["reverse"],
    "round-away-in-onnx": SOLVED["round_away_in_onnx"],
    "eight-bits": SOLVED["eight_bits"],
    "the-sorter": SOLVED["deliver"],
}
ANY = ({0: Dim("batch")},)


def ships_in_its_own_mode(model: Any, example: Any) -> Any:
    """Restore the model's mode, and let the exporter find the dynamic dimension."""
    was = model.training
    try:
        shapes = ({0: Dim.AUTO},)
        return torch.export.export(model.eval(), (example,), dynamic_shapes=shapes)
    finally:
        model.train(was)


def ships_in_the_modes_of_its_layers(model: Any, example: Any) -> Any:
    modes = [(layer, layer.training) for layer in model.modules()]
    try:
        return torch.export.export(model.eval(), (example,), dynamic_shapes=ANY)
    finally:
        for layer, training in modes:
            layer.training = training


def ships_for_at_most(most: int) -> Any:
    def ship(model: Any, example: Any) -> Any:
        shapes = ({0: Dim("batch", max=most)},)
        return torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=shapes)

    return ship


def ships_for_eight(model: Any, example: Any) -> Any:
    return torch.export.export(copy.deepcopy(model).eval(), (example,))


def ships_in_training(model: Any, example: Any) -> Any:
    return torch.export.export(model, (example,), dynamic_shapes=ANY)


def ships_without_grad(model: Any, example: Any) -> Any:
    """Use no_grad as if it were eval."""
    with torch.no_grad():
        return torch.export.export(model, (example,), dynamic_shapes=ANY)


def ships_and_leaves_eval(model: Any, example: Any) -> Any:
    model.eval()
    return torch.export.export(model, (example,), dynamic_shapes=ANY)


def ships_the_module(model: Any, example: Any) -> Any:
    return ships_in_its_own_mode(model, example).module()


def ships_a_trace(model: Any, example: Any) -> Any:
    return torch.jit.trace(copy.deepcopy(model).eval(), example)


def ships_every_axis(model: Any, example: Any) -> Any:
    shapes = ({0: Dim("batch"), 1: Dim("features")},)
    return torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=shapes)


# Which gradients are lost


def _pairs(model: Any, shipped: Any, one: Any, other: Any) -> Any:
    ours, theirs = dict(model.named_parameters()), dict(shipped.named_parameters())
    return zip(ours, one(list(ours.values())), other([theirs[n] for n in ours]), strict=True)


def _vjp(y: Any, g: Any) -> Any:
    return lambda ps: torch.autograd.grad(y, ps, g, materialize_grads=True)


def lost_by_backward(model: Any, shipped: Any, x: Any) -> Any:
    """Work on copies, and call .backward() on a nonlinear loss."""
    nets = copy.deepcopy(model), copy.deepcopy(shipped)
    for net in nets:
        torch.nn.functional.cross_entropy(net(x), torch.zeros(len(x), dtype=torch.long)).backward()
    ours, theirs = (dict(net.named_parameters()) for net in nets)
    return [
        name
        for name in ours
        if ours[name].grad is not None
        and (
            theirs[name].grad is None
            or not torch.allclose(ours[name].grad, theirs[name].grad, rtol=1e-4)
        )
    ]


def lost_by_ones(model: Any, shipped: Any, x: Any) -> Any:
    y, z = model(x), shipped(x)
    pairs = _pairs(model, shipped, _vjp(y, torch.ones_like(y)), _vjp(z, torch.ones_like(z)))
    return [name for name, one, other in pairs if not torch.allclose(one, other)]


def lost_where_zero(model: Any, shipped: Any, x: Any) -> Any:
    y, z = model(x), shipped(x)
    g = torch.randn_like(y)
    pairs = _pairs(model, shipped, _vjp(y, g), _vjp(z, g))
    return [name for name, one, other in pairs if one.any() and not other.any()]


def lost_to_the_last_bit(model: Any, shipped: Any, x: Any) -> Any:
    y, z = model(x), shipped(x)
    g = torch.randn_like(y)
    pairs = _pairs(model, shipped, _vjp(y, g), _vjp(z, g))
    return [name for name, one, other in pairs if not torch.equal(one, other)]


def lost_with_two_vectors(model: Any, shipped: Any, x: Any) -> Any:
    y, z = model(x), shipped(x)
    pairs = _pairs(model, shipped, _vjp(y, torch.randn_like(y)), _vjp(z, torch.randn_like(z)))
    return [name for name, one, other in pairs if not torch.allclose(one, other)]


def lost_that_trips_over_the_unused(model: Any, shipped: Any, x: Any) -> Any:
    y = model(x)
    torch.autograd.grad(y, list(model.parameters()), torch.randn_like(y))
    return []


def lost_that_fills(model: Any, shipped: Any, x: Any) -> Any:
    y, z = model(x), shipped(x)
    g = torch.randn_like(y)
    y.backward(g), z.backward(g)
    ours, theirs = dict(model.named_parameters()), dict(shipped.named_parameters())
    return [
        name
        for name in ours
        if ours[name].grad is not None and not torch.allclose(ours[name].grad, theirs[name].grad)
    ]


def lost_that_wipes(model: Any, shipped: Any, x: Any) -> Any:
    """Call .backward(), and clear .grad before and after. Earlier gradients are lost."""
    nets = model, shipped
    g = torch.randn_like(model(x))
    for net in nets:
        net.zero_grad()
        net(x).backward(g)
    ours, theirs = (
        {n: p.grad for n, p in net.named_parameters() if p.grad is not None} for net in nets
    )
    for net in nets:
        net.zero_grad()
    return [n for n in ours if n not in theirs or not torch.allclose(ours[n], theirs[n])]


def lost_without_a_gradient(model: Any, shipped: Any, x: Any) -> Any:
    """Treat None on both sides as a lost gradient."""
    y, z = model(x), shipped(x)
    g = torch.randn_like(y)

    def vjp(y: Any) -> Any:
        return lambda ps: torch.autograd.grad(y, ps, g, allow_unused=True)

    pairs = _pairs(model, shipped, vjp(y), vjp(z))
    return [n for n, a, b in pairs if a is None or b is None or not torch.allclose(a, b)]


def lost_as_a_tuple(model: Any, shipped: Any, x: Any) -> Any:
    return tuple(RIGHT["lost-gradients"](model, shipped, x))


def lost_if_both_arrive(model: Any, shipped: Any, x: Any) -> list[str]:
    ours, theirs = dict(model.named_parameters()), dict(shipped.named_parameters())
    y = model(x)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(y)
    here = torch.autograd.grad(y, [*ours.values()], g, allow_unused=True)
    there = torch.autograd.grad(shipped(x), [theirs[it] for it in ours], g, allow_unused=True)
    found = zip(ours, here, there, strict=True)
    return [n for n, a, b in found if None not in (a, b) and not torch.allclose(a, b)]


def lost_as_a_count(model: Any, shipped: Any, x: Any) -> Any:
    return len(RIGHT["lost-gradients"](model, shipped, x))


def lost_outputs(model: Any, shipped: Any, x: Any) -> Any:
    """Compare only the outputs."""
    return [] if torch.allclose(model(x), shipped(x)) else ["all"]


# A gradient turned around


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, strength: Any) -> Any:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.strength * g, None


def reverses_by_hook(x: Any, strength: Any) -> Any:
    y = x.clone()
    if y.requires_grad:
        y.register_hook(lambda g: -strength * g)
    return y


def reverses_by_data(x: Any, strength: Any) -> Any:
    return (1 + strength) * x.data - strength * x


def reverses_by_two_parts(x: Any, strength: Any) -> Any:
    return (1 + strength) * x.detach() - strength * x


def reverses_by_a_zero(x: Any, strength: Any) -> Any:
    return x.detach() - strength * (x - x.detach())


@torch.library.custom_op("course_answers::reverse", mutates_args=())
def reverse_op(x: torch.Tensor, strength: float) -> torch.Tensor:
    return x.clone()


def _keep_strength(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.strength = inputs[1]


reverse_op.register_fake(lambda x, strength: torch.empty_like(x))
reverse_op.register_autograd(lambda ctx, g: (-ctx.strength * g, None), setup_context=_keep_strength)


ALSO_RIGHT = {
    "any batch: the modes of its layers": ("any-batch", ships_in_the_modes_of_its_layers),
    "lost: by backward of copies": ("lost-gradients", lost_by_backward),
    "reversal: two parts": ("reversal-that-travels", reverses_by_two_parts),
    "reversal: a zero": ("reversal-that-travels", reverses_by_a_zero),
    "reversal: a custom operator": ("reversal-that-travels", reverse_op),
    **ALSO_TRANSLATED,
    **ALSO_BITS,
    **ALSO_SORTERS,
}
WRONG = [
    Wrong("any-batch", "its own mode", "the mode of each module", ships_in_its_own_mode),
    Wrong("any-batch", "for the example's size", "an error for a batch of 5", ships_for_eight),
    Wrong("any-batch", "for at most 1,000", "Does your torch.export.Dim", ships_for_at_most(1000)),
    Wrong("any-batch", "in training mode", "the dropout is on", ships_in_training),
    Wrong("any-batch", "no_grad for eval", "the dropout is on", ships_without_grad),
    Wrong("any-batch", "leaves eval on", "was in training mode", ships_and_leaves_eval),
    Wrong("any-batch", "its module", "a GraphModule, as .module()", ships_the_module),
    Wrong("any-batch", "a trace", "a module of torch.jit", ships_a_trace),
    Wrong("any-batch", "every axis may vary", "Constraints violated", ships_every_axis),
    Wrong("lost-gradients", "a g of ones", "not the same for all outputs", lost_by_ones),
    Wrong("lost-gradients", "zeros only", "Compare the values", lost_where_zero),
    Wrong("lost-gradients", "to the last bit", "with a tolerance", lost_to_the_last_bit),
    Wrong("lost-gradients", "a g for each", "the same g through both", lost_with_two_vectors),
    Wrong("lost-gradients", "unused", "not have been used", lost_that_trips_over_the_unused),
    Wrong("lost-gradients", "by backward", "the .grad of 0.weight", lost_that_fills),
    Wrong("lost-gradients", "by backward and zero_grad", "zero_grad also erases", lost_that_wipes),
    Wrong("lost-gradients", "None", "Neither model uses", lost_without_a_gradient),
    Wrong("lost-gradients", "one None", "If only one of the two", lost_if_both_arrive),
    Wrong("lost-gradients", "a tuple", "something of type tuple", lost_as_a_tuple),
    Wrong("lost-gradients", "a count", "something of type int", lost_as_a_count),
    Wrong("lost-gradients", "compares outputs", "returns nothing", lost_outputs),
    Wrong("reversal-that-travels", ".data", "detach is an operation", reverses_by_data),
    *(
        Wrong("reversal-that-travels", mistake, told, answer)
        for mistake, told, answer in (
            ("only one part", "so that the sum is x", lambda x, strength: -strength * x),
            ("2 x", "The result is 2 x", lambda x, strength: 2 * x.detach() - strength * x),
            ("the sign in the value", "The result is strength", lambda x, strength: strength * x),
            ("x less", "what the other part subtracts", lambda x, strength: x - strength * x),
            ("x more", "The result is x +", lambda x, strength: x + strength * x),
            (
                "x carries a gradient, too",
                "another part carries grad_output itself",
                lambda x, strength: x + strength * (x.detach() - x),
            ),
            (
                "no strength",
                "The factor strength is missing",
                lambda x, strength: -x + (2 * x).detach(),
            ),
            (
                "no sign",
                "The minus sign is missing",
                lambda x, strength: strength * x + (x - strength * x).detach(),
            ),
            ("a plain copy", "passes unchanged", lambda x, strength: x.clone()),
            (
                "all detached",
                "or the parts that carry one cancel",
                lambda x, strength: (strength * x + (x - strength * x)).detach(),
            ),
        )
    ),
    Wrong("reversal-that-travels", "a Function", "nor a hook is an operation", Reverse.apply),
    Wrong("reversal-that-travels", "a hook", "nor a hook is an operation", reverses_by_hook),
    Wrong(
        "reversal-that-travels", "the values too", "is wrong at", lambda x, strength: -strength * x
    ),
    Wrong("reversal-that-travels", "cut off", "is 0 times", lambda x, strength: x.detach()),
    Wrong(
        "reversal-that-travels",
        "strength forgotten",
        "is -1 times grad_output, should be -0.3",
        lambda x, strength: 2 * x.detach() - x,
    ),
    *WRONG_TRANSLATIONS,
    *WRONG_BITS,
    *WRONG_SORTERS,
]
KNOWN = [
    ("reversal-that-travels", (double(-2, 0.5), 3.0), double(-2, 0.5)),
    (
        "eight-bits",
        (double(0.5, -0.9, 1, 0, 0, 0).reshape(2, 3),),
        double(64 / 127.5, -115 / 127.5, 127 / 127.5, 0, 0, 0).reshape(2, 3),
    ),
]
