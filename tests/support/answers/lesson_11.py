"""Answers to the exercises of lesson 11."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.autograd import Function
from torch.func import functional_call, grad, jacrev, vmap

from answers.making import Rewriting, Wrong, double, spoiled
from autograd_course.functions import SmoothMaximum

changed = Rewriting("11_torch_func")
SOLVED = changed.solved
RIGHT = {
    "split-rms-norm": SOLVED["RMSNorm"],
    "per-sample-gradients": SOLVED["per_sample_gradients"],
    "vmap-solve": SOLVED["Solve"],
    "jvp-smooth-maximum": SOLVED["SmoothMaximum"],
    "predict-vmap-elements": [15, 20, 3, 60],
}
RMSNorm, Solve, Maximum = SOLVED["RMSNorm"], SOLVED["Solve"], SOLVED["SmoothMaximum"]


# Split an old Function


def rms_backward(ctx: Any, g: Any, _: Any) -> Any:
    """Compute the old backward. Each of the answers below stores rstd in a different place."""
    x, weight = ctx.saved_tensors
    normed, scaled = x * ctx.rstd, g * weight
    by_x = ctx.rstd * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return by_x, (g * normed).reshape(-1, x.shape[-1]).sum(0), None


def rms_of_rstd_on_ctx(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.rstd = output[1]
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[:2])


class RMSRecomputed(RMSNorm):
    """Saves only the inputs, so that it can be differentiated twice."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:2])
        ctx.eps = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        ctx.rstd = (ctx.saved_tensors[0].square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        return rms_backward(ctx, g, _)


def rms_saves_the_output(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*output, inputs[1])


def rms_from_the_output(ctx: Any, g: Any, _: Any) -> Any:
    y, rstd, weight = ctx.saved_tensors
    normed, scaled = y / weight, g * weight
    grad_x = rstd * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return grad_x, (g * normed).reshape(-1, len(weight)).sum(0), None


class RMSCombined(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, eps: Any) -> Any:
        y, rstd = RMSNorm.forward(x, weight, eps)
        RMSNorm.setup_context(ctx, (x, weight, eps), (y, rstd))
        return y, rstd

    backward = staticmethod(RMSNorm.backward)


class RMSWithoutRule(RMSNorm):
    generate_vmap_rule = False


def rms_unmarked(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2], output[1])


def rms_through_rstd(ctx: Any, g: Any, g_rstd: Any) -> Any:
    x, _, rstd = ctx.saved_tensors
    grad_x, grad_weight, _ = RMSNorm.backward(ctx, g, None)
    return grad_x - g_rstd * rstd**3 * x / x.shape[-1], grad_weight, None


def rms_ctx_in_forward(ctx: Any, x: Any, weight: Any, eps: Any) -> Any:
    ctx.rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * ctx.rstd * weight, ctx.rstd


class RMSOnTheClass(RMSNorm):
    """Forward has no ctx on which to store the value, so this stores it on the class."""

    kept: Any = None

    @staticmethod
    def forward(x: Any, weight: Any, eps: Any) -> Any:
        y, RMSOnTheClass.kept = RMSNorm.forward(x, weight, eps)
        return y, RMSOnTheClass.kept

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        ctx.rstd = RMSOnTheClass.kept
        return rms_backward(ctx, g, _)


# A vmap rule for NumPy


def ruled(rule: Any) -> type[Function]:
    """Return a Solve with another vmap rule, ``rule(apply, info, in_dims, a, b)``."""

    class Ruled(Solve):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, y = ctx.saved_tensors
            by_b = Ruled.apply(a.mT, g)
            return -by_b[..., :, None] * y[..., None, :], by_b

        @staticmethod
        def vmap(info: Any, in_dims: Any, a: Any, b: Any) -> Any:
            return rule(Ruled.apply, info, in_dims, a, b)

    return Ruled


def moved(tensor: Any, dim: Any, size: int) -> Any:
    return torch.stack([tensor] * size) if dim is None else tensor.movedim(dim, 0)


def by_moving(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    a, b = (moved(t, d, info.batch_size) for t, d in zip((a, b), in_dims, strict=True))
    return apply(a, b), 0


def leaving_shared(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    """Let NumPy broadcast a shared input. The engine sums its gradient."""
    a = a if in_dims[0] is None else a.movedim(in_dims[0], 0)
    b = b if in_dims[1] is None else b.movedim(in_dims[1], 0)
    return apply(a, b), 0


def to_the_end(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    result, _ = by_moving(apply, info, in_dims, a, b)
    return result.movedim(0, -1), -1


def as_they_come(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    return apply(a, b), 0


def where_a_was(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    result, _ = by_moving(apply, info, in_dims, a, b)
    return result, in_dims[0]


def looping_over_shared(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    """Call the kernel once for a batch, but once per sample if all samples share an argument."""
    if None not in in_dims:
        return by_moving(apply, info, in_dims, a, b)
    a, b = (moved(t, d, info.batch_size) for t, d in zip((a, b), in_dims, strict=True))
    return torch.stack([apply(*pair) for pair in zip(a, b, strict=True)]), 0


def none_forgotten(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    return apply(a.movedim(in_dims[0], 0), b.movedim(in_dims[1], 0)), 0


def without_out_dims(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    return by_moving(apply, info, in_dims, a, b)[0]


def forward_alone(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    return Solve.forward(
        *(moved(t, d, info.batch_size) for t, d in zip((a, b), in_dims, strict=True))
    ), 0


def looped(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    a, b = (moved(t, d, info.batch_size) for t, d in zip((a, b), in_dims, strict=True))
    return torch.stack([apply(one, other) for one, other in zip(a, b, strict=True)]), 0


def without_the_kernel(apply: Any, info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    a, b = moved(a, in_dims[0], info.batch_size), moved(b, in_dims[1], info.batch_size)
    return torch.linalg.solve(a, b), 0


class SolveGenerated(Solve):
    """A generated rule calls forward with tensors that NumPy cannot read."""

    generate_vmap_rule = True
    vmap = staticmethod(Function.vmap)


# Forward mode


def maximum(**methods: Any) -> type[Function]:
    return spoiled(Maximum, **methods)


def _parts(ctx: Any) -> tuple[Any, ...]:
    x, t, y = ctx.saved_tensors
    p = torch.softmax(x / t, -1)
    return x, t, y, p


def jvp_by_parts(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return ((dx + dt * (y[..., None] - x) / t) * p).sum(-1)


def jvp_as_backward(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return p * dx, (dt * (y - (p * x).sum(-1)) / t).sum()


def jvp_of_x_alone(ctx: Any, dx: Any, dt: Any) -> Any:
    return (_parts(ctx)[3] * dx).sum(-1)


def jvp_without_p(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return dx.sum(-1) + dt * (y - (p * x).sum(-1)) / t


def jvp_refusing_t_alone(ctx: Any, dx: Any, dt: Any) -> Any:
    if not dx.any():
        raise NotImplementedError("no tangent of the temperature")
    return jvp_by_parts(ctx, dx, dt)


def jvp_times_t(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return (p * dx).sum(-1) + dt * (y - (p * x).sum(-1)) * t


def jvp_of_the_sum(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return (p * dx).sum(-1) + (dt * (y - (p * x).sum(-1)) / t).sum()


def backward_only(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output)


def all_on_ctx(ctx: Any, inputs: Any, output: Any) -> None:
    backward_only(ctx, inputs, output)
    ctx.kept = (*inputs, output)


def jvp_from_ctx(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y = ctx.kept
    p = torch.softmax(x / t, -1)
    return (p * dx).sum(-1) + dt * (y - (p * x).sum(-1)) / t


def p_for_forward(ctx: Any, inputs: Any, output: Any) -> None:
    x, t = inputs
    backward_only(ctx, inputs, output)
    ctx.save_for_forward(x, t, output, torch.softmax(x / t, -1))


def jvp_of_p(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = ctx.saved_tensors
    return (p * dx).sum(-1) + dt * (y - (p * x).sum(-1)) / t


def y_first_for_forward(ctx: Any, inputs: Any, output: Any) -> None:
    backward_only(ctx, inputs, output)
    ctx.save_for_forward(output, *inputs)


def jvp_of_y_first(ctx: Any, dx: Any, dt: Any) -> Any:
    y, x, t = ctx.saved_tensors
    p = torch.softmax(x / t, -1)
    return (p * dx).sum(-1) + dt * (y - (p * x).sum(-1)) / t


def jvp_in_place(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return dx.mul_(p).sum(-1) + dt * (y - (p * x).sum(-1)) / t


def jvp_by_func(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, _ = ctx.saved_tensors
    return torch.func.jvp(Maximum.forward, (x, t), (dx, dt))[1]


def jvp_of_a_number(ctx: Any, dx: Any, dt: Any) -> Any:
    x, t, y, p = _parts(ctx)
    return (p * dx).sum(-1) + dt.item() * (y - (p * x).sum(-1)) / t


class MaximumWithoutJvp(Maximum):
    jvp = staticmethod(Function.jvp)


# Per-sample gradients


def _parameters(model: Any) -> dict[str, Any]:
    return {name: p.detach() for name, p in model.named_parameters()}


def _of_one(model: Any, loss: Any) -> Any:
    def of_one(parameters: Any, x: Any, y: Any) -> Any:
        return loss(functional_call(model, parameters, (x[None],)), y[None])

    return of_one


def by_jacobian(model: Any, loss: Any, x: Any, y: Any) -> Any:
    """Compute the Jacobian of the vector of losses, with one call to the model."""

    def losses(parameters: Any) -> Any:
        predictions = functional_call(model, parameters, (x,))
        return vmap(lambda p, t: loss(p[None], t[None]))(predictions, y)

    return tuple(jacrev(losses)(_parameters(model)).values())


def by_backward_passes(model: Any, loss: Any, x: Any, y: Any) -> Any:
    """Call the model once, and differentiate its predictions one by one."""
    parameters, predictions = list(model.parameters()), model(x).split(1)
    rows = [
        torch.autograd.grad(loss(prediction, target), parameters, retain_graph=True)
        for prediction, target in zip(predictions, y.split(1), strict=True)
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def by_copied_parameters(model: Any, loss: Any, x: Any, y: Any) -> Any:
    """Give each sample its own copy of the parameters, and differentiate the sum of the losses."""
    copies = {
        name: p.expand(len(x), *p.shape).clone().requires_grad_()
        for name, p in _parameters(model).items()
    }
    losses = vmap(_of_one(model, loss))(copies, x, y)
    return torch.autograd.grad(losses.sum(), list(copies.values()))


def layers_in_a_loop(model: Any, loss: Any, x: Any, y: Any) -> Any:
    """Call the model once, but run its layers for each sample."""
    model(x)

    def layer_by_layer(one: Any) -> Any:
        if not isinstance(model, torch.nn.Sequential):
            return model(one)
        for layer in model:
            is_linear = isinstance(layer, torch.nn.Linear)
            one = torch.nn.functional.linear(one, *layer.parameters()) if is_linear else layer(one)
        return one

    rows = [
        torch.autograd.grad(loss(layer_by_layer(one), target), list(model.parameters()))
        for one, target in zip(x.split(1), y.split(1), strict=True)
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def in_a_loop(model: Any, loss: Any, x: Any, y: Any) -> Any:
    of_one = grad(_of_one(model, loss))
    rows = [of_one(_parameters(model), *one) for one in zip(x, y, strict=True)]
    return tuple(torch.stack([row[name] for row in rows]) for name in rows[0])


def of_the_batch(model: Any, loss: Any, x: Any, y: Any) -> Any:
    gradients = torch.autograd.grad(loss(model(x), y), list(model.parameters()))
    return tuple(g.expand(len(x), *g.shape) for g in gradients)


def without_batch_axis(model: Any, loss: Any, x: Any, y: Any) -> Any:
    def of_one(parameters: Any, x: Any, y: Any) -> Any:
        return loss(functional_call(model, parameters, (x,)), y)

    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))(_parameters(model), x, y)
    return tuple(gradients.values())


def parameters_mapped_too(model: Any, loss: Any, x: Any, y: Any) -> Any:
    return tuple(vmap(grad(_of_one(model, loss)))(_parameters(model), x, y).values())


def divided(model: Any, loss: Any, x: Any, y: Any) -> Any:
    right = vmap(grad(_of_one(model, loss)), in_dims=(None, 0, 0))(_parameters(model), x, y)
    return tuple(g / len(x) for g in right.values())


def as_a_dict(model: Any, loss: Any, x: Any, y: Any) -> Any:
    return vmap(grad(_of_one(model, loss)), in_dims=(None, 0, 0))(_parameters(model), x, y)


ALSO_RIGHT = {
    "RMS norm that works out rstd again": ("split-rms-norm", RMSRecomputed),
    "a rule that copies what is shared": ("vmap-solve", ruled(by_moving)),
    "a rule that leaves what is shared": ("vmap-solve", ruled(leaving_shared)),
    "a rule that puts the batch last": ("vmap-solve", ruled(to_the_end)),
    "the package's smooth maximum": ("jvp-smooth-maximum", SmoothMaximum),
    "both tangents under one sum": ("jvp-smooth-maximum", maximum(jvp=jvp_by_parts)),
    "per-sample gradients by backward passes": ("per-sample-gradients", by_backward_passes),
    "per-sample gradients of copies": ("per-sample-gradients", by_copied_parameters),
    "per-sample gradients by a Jacobian": ("per-sample-gradients", by_jacobian),
}


def _vmap(mistake: str, rule: str, answer: Any) -> Wrong:
    return Wrong("vmap-solve", mistake, rule, answer)


def _jvp(mistake: str, rule: str, **methods: Any) -> Wrong:
    return Wrong("jvp-smooth-maximum", mistake, rule, maximum(**methods))


def _samples(mistake: str, rule: str, answer: Any) -> Wrong:
    return Wrong("per-sample-gradients", mistake, rule, answer)


# Pieces of the right answers, and what replaces them
EXPANDED = "tensor.expand(info.batch_size, *tensor.shape)"
MOVED, APPLIED = "tensor.movedim(dim, 0)", "return Solve.apply(a, b), 0"
RULES: list[tuple[str, str, list[tuple[str, str]]]] = [
    (
        "a transpose",
        "with the other dims in the wrong order",
        [(MOVED, "tensor.transpose(0, dim)")],
    ),
    ("movedim the other way", "dim 0 moved to dim 2", [(MOVED, "tensor.movedim(0, dim)")]),
    ("the batch is moved to the end", "in the last dim", [(MOVED, "tensor.movedim(dim, -1)")]),
    ("nothing is moved", "as it came", [(MOVED, "tensor")]),
    ("0 counts as None", "Python counts 0 as false", [("dim is None", "not dim")]),
    (
        "in_dims in the wrong order",
        "The entries of in_dims have the order",
        [("in_dims, strict", "in_dims[::-1], strict")],
    ),
    (
        "the batch is reshaped",
        "but not for (0, 0)",
        [(MOVED, "tensor.reshape(info.batch_size, *tensor.shape[1:])")],
    ),
    ("expanded at the end", "in front of (3,)", [(EXPANDED, "tensor.unsqueeze(-1)")]),
    ("out_dims is None", "no batch dim", [(APPLIED, "return Solve.apply(a, b), None")]),
    ("out_dims is a tuple", "must be one number", [(APPLIED, "return Solve.apply(a, b), in_dims")]),
    ("out_dims is the last dim", "but your rule returns -1", [(APPLIED, f"{APPLIED[:-1]}-1")]),
    ("only the result", "Return two things", [(APPLIED, "return Solve.apply(a, b)")]),
    ("a and b exchanged", "b where it expects a", [(APPLIED, "return Solve.apply(b, a), 0")]),
    ("vmap in the rule", "calls itself", [(APPLIED, "return vmap(Solve.apply)(a, b), 0")]),
    ("no info", "without ctx", [("def vmap(info, ", "def vmap(")]),
    ("another name in info", "info has two", [("info.batch_size", "info.size")]),
    (
        "only for samples without a batch",
        "however many dims b has",
        [(EXPANDED, "tensor.expand(info.batch_size, *[-1] * (2 - (tensor is b)))")],
    ),
]
BY_X, BY_T = "(p * x_tangent).sum(-1)", "t_tangent * (y - (p * x).sum(-1)) / t"
SAVED = "ctx.save_for_forward(*inputs, output)"
P = "p = torch.softmax(x / t, -1)\n        return (p * x_tangent"
TANGENTS: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    (mistake, "wrong-jvp", hint, [change])
    for mistake, hint, change in [
        ("p is summed", "x is not multiplied by its tangent", (BY_X, "p.sum(-1)")),
        ("t has no tangent", "temperature is not multiplied", (BY_T, BY_T[12:])),
        ("a constant", "does not return zero", (BY_T, f"{BY_T} + 1")),
        ("no part of x", "tangent of x has no effect", (BY_X, "0")),
        ("no part of t", "of the temperature has no effect", (BY_T, "0")),
        ("a product", "Add them", (f"{BY_X} + ", f"{BY_X} * ")),
        ("two results", "returns 2 values", (f"{BY_X} + ", f"{BY_X}, ")),
        ("all rows", "part of x is added over all rows", (BY_X, "(p * x_tangent).sum()")),
        ("the row's dim is kept", "must not keep", (BY_X, "(p * x_tangent).sum(-1, keepdim=True)")),
        ("no sum", "Print the shape of each term", (BY_X, "p * x_tangent")),
        ("the softmax of x", "needs the softmax of x / t", (P, P.replace("x / t", "x"))),
        ("a softmax of columns", "softmax over dim 0", (P, P.replace("-1", "0"))),
        ("x over t", "is divided by t. The derivative", (BY_X, f"{BY_X} / t")),
        ("not over t", "is not divided by t", (BY_T, BY_T[:-4])),
        ("the sign of t", "temperature has the wrong sign", (f"+ {BY_T}", f"- {BY_T}")),
        ("y plus", "must be subtracted from y", (BY_T, BY_T.replace("y - ", "y + "))),
        ("y alone", "the sum of p x is missing", (BY_T, "t_tangent * y / t")),
        ("y left out", "y is missing", (BY_T, BY_T.replace("y - ", "-"))),
        ("the mean of x", "equal weights", (BY_T, BY_T.replace("(p * x).sum", "x.mean"))),
        ("rows added", "as in backward", (BY_T, f"({BY_T}).sum()")),
        ("another order", "in another order", (SAVED, "ctx.save_for_forward(output, *inputs)")),
        ("no zeros", "Remove this call", (SAVED, f"{SAVED}; ctx.set_materialize_grads(False)")),
    ]
]
TANGENTS += [
    (
        "backward's tensors in another order",
        "backward-raises",
        "The given backward unpacks x, t, y",
        [("backward(*inputs, output)", "backward(output, *inputs)")],
    ),
    (
        "one tangent",
        "wrong-jvp",
        "one tangent for each input",
        [("x_tangent: Tensor, t_tangent: Tensor", "x_tangent: Tensor"), (f" + {BY_T}", "")],
    ),
]
CALL, RULE = "(x.unsqueeze(0),)", "vmap(grad(of_one), in_dims=(None, 0, 0))"
PER_SAMPLE: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("x has no batch dim", "expects one: add a dim of size 1 to x", [(CALL, "(x,)")]),
    ("y has no batch dim", "add a dim of size 1 to y", [("y.unsqueeze(0)", "y")]),
    ("the batch dim last", "as dim 0", [(CALL, "(x.unsqueeze(-1),)")]),
    ("everything is mapped", "takes the parameters apart too", [("(None, 0, 0)", "0")]),
    ("None for x", "The entry of x is 0", [("(None, 0, 0)", "(0, None, 0)")]),
    ("dim 1 of x", "lie along dim 0 of x", [("(None, 0, 0)", "(None, 1, 0)")]),
    ("an entry too few", "one entry for each argument", [("(None, 0, 0)", "(None, 0)")]),
    ("grad of vmap", "Apply grad to the loss", [(RULE, "grad(vmap(of_one, (None, 0, 0)))")]),
    ("the gradient of x", "a tensor, not a dict", [("grad(of_one)", "grad(of_one, argnums=1)")]),
    (
        "parameters without names",
        "by name",
        [("{name: p.detach() for name, p in model.named_parameters()}", "[*model.parameters()]")],
    ),
    ("the samples in dim 1", "lie along dim 1", [("(None, 0, 0))", "(None, 0, 0), out_dims=1)")]),
    ("flat", "is flattened", [("gradients.values()", "g.flatten(1) for g in gradients.values()")]),
    ("times N", "too large by", [("gradients.values()", "len(x) * g for g in gradients.values()")]),
    (
        "own loss",
        "the squared errors yourself",
        [("loss(prediction, y.unsqueeze(0))", "((prediction - y) ** 2).sum()")],
    ),
]

WRONG = [
    Wrong("predict-vmap-elements", "the whole batch", "hides the batch dim", [60, 20, 3, 60]),
    Wrong("predict-vmap-elements", "dim 0, not dim 2", "vmap hides dim 2", [15, 15, 3, 60]),
    Wrong("predict-vmap-elements", "one vmap of two", "Each of the two", [15, 20, 15, 60]),
    Wrong("predict-vmap-elements", "a generated rule", "the whole tensor", [15, 20, 3, 15]),
    Wrong(
        "split-rms-norm",
        "the normalized x from the output",
        "non-finite",
        spoiled(RMSNorm, setup_context=rms_saves_the_output, backward=rms_from_the_output),
    ),
    Wrong("split-rms-norm", "ctx is still in forward", "func-incompatible", RMSCombined),
    Wrong("split-rms-norm", "no rule for vmap", "wrong-vmap", RMSWithoutRule, "set `generate_vmap"),
    Wrong(
        "split-rms-norm",
        "rstd is not marked",
        "wrong-non-differentiable",
        spoiled(RMSNorm, setup_context=rms_unmarked),
    ),
    Wrong(
        "split-rms-norm",
        "forward still takes ctx",
        "arguments of this exercise: write forward(x, weight, eps)",
        type("RMSNorm", (RMSNorm,), {"forward": staticmethod(rms_ctx_in_forward)}),
    ),
    Wrong("split-rms-norm", "rstd on the class", "shared-state", RMSOnTheClass),
    Wrong(
        "split-rms-norm",
        "differentiates rstd",
        "missing-dependency",
        spoiled(RMSNorm, setup_context=rms_unmarked, backward=rms_through_rstd),
        "non-differentiable",
    ),
    Wrong(
        "split-rms-norm",
        "backward takes one gradient",
        "backward-raises",
        spoiled(RMSNorm, backward=lambda ctx, g: RMSNorm.backward(ctx, g, None)),
    ),
    Wrong(
        "split-rms-norm",
        "rstd is not returned",
        "forward-raises",
        spoiled(RMSNorm, forward=lambda x, w, e: RMSNorm.forward(x, w, e)[0]),
    ),
    _samples("a list", "this exercise asks for a tuple", lambda *given: [*by_jacobian(*given)]),
    _samples("a loop", "the model is called 30 times", in_a_loop),
    _samples("layers in a loop", "the tanh layer of the model runs 31 times", layers_in_a_loop),
    _samples("the batch's gradient", "gradient of the whole batch", of_the_batch),
    _samples("no batch axis", "raises", without_batch_axis),
    _samples("the parameters are mapped too", "raises ValueError", parameters_mapped_too),
    _samples("shares of the mean", "shares of a mean", divided),
    _samples("a dict", "of type dict", as_a_dict),
    _vmap("the batch is taken to be in front", "wrong-vmap", ruled(as_they_come)),
    _vmap("out_dims is where the batch was", "wrong-vmap", ruled(where_a_was)),
    _vmap("a loop over shared arguments", "`forward` runs 40 times", ruled(looping_over_shared)),
    _vmap("None is forgotten", "wrong-vmap", ruled(none_forgotten)),
    _vmap("out_dims is not returned", "wrong-vmap", ruled(without_out_dims)),
    _vmap("a loop over the samples", "wrong-vmap", ruled(looped)),
    _vmap("a generated rule", "wrong-vmap", SolveGenerated),
    Wrong("vmap-solve", "forward, not apply", "wrong-vmap", ruled(forward_alone), "has no graph"),
    _vmap("the kernel is left out", "without the kernel", ruled(without_the_kernel)),
    _jvp("what backward returns", "wrong-jvp", jvp=jvp_as_backward),
    _jvp("the temperature's tangent is left out", "wrong-jvp", jvp=jvp_of_x_alone),
    _jvp("the temperature's tangent alone is refused", "wrong-jvp", jvp=jvp_refusing_t_alone),
    _jvp("the softmax is left out", "wrong-jvp", jvp=jvp_without_p),
    _jvp("times t, not over t", "wrong-jvp", jvp=jvp_times_t),
    _jvp("summed over all rows", "wrong-jvp", jvp=jvp_of_the_sum),
    _jvp("nothing saved for forward mode", "wrong-jvp", setup_context=backward_only),
    _jvp("kept on ctx", "tensor-on-ctx", setup_context=all_on_ctx, jvp=jvp_from_ctx),
    _jvp(
        "other tensors for each mode",
        "silent-reverse-over-forward",
        setup_context=p_for_forward,
        jvp=jvp_of_p,
    ),
    Wrong("jvp-smooth-maximum", "no jvp", "wrong-jvp", MaximumWithoutJvp),
    Wrong(
        "jvp-smooth-maximum",
        "the same tensors in another order",
        "wrong-vmap",
        maximum(setup_context=y_first_for_forward, jvp=jvp_of_y_first),
        "in the same order",
    ),
    Wrong(
        "jvp-smooth-maximum",
        "writes into a tangent",
        "wrong-jvp",
        maximum(jvp=jvp_in_place),
        "Compute a new tensor",
    ),
    Wrong(
        "jvp-smooth-maximum",
        "forward mode inside of jvp",
        "wrong-jvp",
        maximum(jvp=jvp_by_func),
        "Write the tangent as a formula",
    ),
    Wrong(
        "jvp-smooth-maximum",
        "a tangent made a number",
        "wrong-jvp",
        maximum(jvp=jvp_of_a_number),
        "Do not call `.item()`",
    ),
    changed(
        "per-sample-gradients",
        "model direct",
        "All gradients are 0,",
        ("functional_call(model, parameters, (x.unsqueeze(0),))", "model(x.unsqueeze(0))"),
    ),
    changed(
        "per-sample-gradients",
        "buffers too",
        "state_dict contains the buffers",
        ("model.named_parameters()", "model.state_dict().items()"),
    ),
    changed(
        "per-sample-gradients",
        "no vmap",
        "There is one gradient",
        ("vmap(grad(of_one), in_dims=(None, 0, 0))", "grad(of_one)"),
        ("x.unsqueeze(0)", "x"),
        ("y.unsqueeze(0)", "y"),
    ),
    changed(
        "per-sample-gradients",
        "summed",
        "The gradients of the",
        ("tuple(gradients.values())", "tuple(v.sum(0) for v in gradients.values())"),
    ),
    *(
        Wrong("vmap-solve", mistake, "wrong-vmap", changed.answer("vmap-solve", *changes), hint)
        for mistake, hint, changes in RULES
    ),
    *(
        Wrong("jvp-smooth-maximum", mistake, rule, changed.answer("jvp-smooth-maximum", *it), hint)
        for mistake, rule, hint, it in TANGENTS
    ),
    *(
        changed("per-sample-gradients", mistake, sentence, *changes)
        for mistake, sentence, changes in PER_SAMPLE
    ),
]

KNOWN = [
    (
        "split-rms-norm",
        (double(3.0, 4.0), double(1.0, 2.0), 0.5),
        (double(3.0, 8.0) / math.sqrt(13), double(1.0) / math.sqrt(13)),
    ),
    ("vmap-solve", (torch.diag(double(2.0, 4.0)), double(2.0, 2.0)), double(1.0, 0.5)),
    ("jvp-smooth-maximum", (double(0.0, 0.0), double(3.0)[0]), double(3 * math.log(2))[0]),
]
