"""Answers to the exercises of lesson 07."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.autograd import Function
from torch.utils import checkpoint as of_torch

from answers.making import Rewriting, Spoiling, Wrong, combined, double, solved
from autograd_course.functions import checkpoint

SOLVED = solved("07_memory_patterns")
RIGHT = {
    "elu-by-output": SOLVED["ELU"],
    "maximum-by-mask": SOLVED["Maximum"],
    "swiglu": SOLVED["SwiGLU"],
    "fused-linear-relu": SOLVED["LinearReLU"],
    "packed-leaky-relu": SOLVED["PackedLeakyReLU"],
    "predict-saved-bytes": [64, 128, 16, 64],
    "card-saved-view": "4b",
    "invertible-coupling": SOLVED["Coupling"],
    "checkpointed-block": SOLVED["checkpointed"],
    "chunked-row-losses": SOLVED["RowLosses"],
}


class ELUByMinimum(Function):
    """Avoids a case distinction: it uses the negative part of y, and adds α where y ≤ 0."""

    @staticmethod
    def forward(ctx: Any, x: Any, alpha: float) -> Any:
        y = torch.nn.functional.elu(x, alpha)
        ctx.save_for_backward(y)
        ctx.alpha = alpha
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * ((y > 0) + (y <= 0) * (y + ctx.alpha)), None


class MaximumOfTies(Function):
    """If two inputs are equal, the first one gets the gradient."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return torch.where(a >= b, a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1] <= inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (first,) = ctx.saved_tensors
        return torch.where(first, g, 0.0), torch.where(first, 0.0, g)


class MaximumByProducts(Function):
    """Gives nan where `a` is -inf, which this exercise does not ask about."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        a_wins = a > b
        ctx.save_for_backward(a_wins)
        return a * a_wins + b * ~a_wins

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (a_wins,) = ctx.saved_tensors
        return g * a_wins, g * ~a_wins


class SwiGLUBySilu(Function):
    """Uses the built-in in forward, and the output of the swish in backward."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return torch.nn.functional.silu(a) * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        s = 1 / (1 + torch.exp(-a))
        swish = a * s
        return g * b * (s + swish * (1 - s)), g * swish


class LinearReLUWithBiasSaved(Function):
    """Saves the bias as well, as careful people do, and uses a plain matrix product."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        y = torch.relu(x.matmul(weight.t()) + bias)
        ctx.save_for_backward(x, weight, bias, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, bias, y = ctx.saved_tensors
        g = torch.where(y > 0, g, 0.0)
        grad_x = g.mm(weight) if ctx.needs_input_grad[0] else None
        grad_weight = g.t().mm(x) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, g.sum(0).view_as(bias)


class LeakyByShifts(Function):
    """Sets the bits one at a time, in the opposite order."""

    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.shape, ctx.slope = x.shape, slope
        mask = torch.zeros(8 * math.ceil(x.numel() / 8), dtype=torch.uint8)
        mask[: x.numel()] = (x > 0).flatten()
        packed = torch.zeros(len(mask) // 8, dtype=torch.uint8)
        for place in range(8):
            packed |= mask[place::8] << (7 - place)
        ctx.save_for_backward(packed)
        return torch.nn.functional.leaky_relu(x, slope)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (packed,) = ctx.saved_tensors
        digits = [(packed >> (7 - place)) & 1 for place in range(8)]
        mask = torch.stack(digits, 1).flatten()[: g.numel()].view(ctx.shape).bool()
        return g * torch.where(mask, 1.0, ctx.slope).to(g.dtype), None


class CouplingInOtherWords(SOLVED["Coupling"]):  # type: ignore[misc]
    """Reconstructs both inputs first, as in RevNets."""

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        y1, y2, w, v = ctx.saved_tensors
        x2 = y2 - torch.tanh(y1 @ v)
        x1 = y1 - torch.tanh(x2 @ w)
        through_g = g2 / torch.cosh((x1 + torch.tanh(x2 @ w)) @ v) ** 2
        g1 = g1 + through_g @ v.T
        through_f = g1 / torch.cosh(x2 @ w) ** 2
        return g1, g2 + through_f @ w.T, x2.T @ through_f, y1.T @ through_g


class CheckpointByBackward(Function):
    """Copies the random state, and the parameters to new leaves. Calls .backward()."""

    @staticmethod
    def forward(ctx: Any, block: Any, names: Any, x: Any, *parameters: Any) -> Any:
        ctx.block, ctx.names, ctx.state = block, names, torch.random.get_rng_state().clone()
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        leaves = [t.detach().clone().requires_grad_() for t in ctx.saved_tensors]
        before = torch.random.get_rng_state()
        torch.random.set_rng_state(ctx.state)
        with torch.enable_grad():
            own = dict(zip(ctx.names, leaves[1:], strict=True))
            y = torch.func.functional_call(ctx.block, own, leaves[0])
            y.backward(g)
        torch.random.set_rng_state(before)
        return None, None, *(leaf.grad for leaf in leaves)


def checkpointed_by_backward(block: Any, x: Any) -> Any:
    names, parameters = zip(*block.named_parameters(), strict=True)
    return CheckpointByBackward.apply(block, names, x, *parameters)


class CheckpointByFunc(Function):
    """Differentiates the second run with torch.func."""

    @staticmethod
    def forward(ctx: Any, block: Any, x: Any, *parameters: Any) -> Any:
        ctx.block, ctx.state = block, torch.get_rng_state()
        ctx.save_for_backward(x, *parameters)
        return block(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        names = [name for name, _ in ctx.block.named_parameters()]

        def run(x: Any, *parameters: Any) -> Any:
            own = dict(zip(names, parameters, strict=True))
            return torch.func.functional_call(ctx.block, own, x)

        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            _, through = torch.func.vjp(run, *ctx.saved_tensors)
        return None, *through(g)


class Passed(Function):
    @staticmethod
    def forward(ctx: Any, y: Any) -> Any:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def checkpointed_by_func(block: Any, x: Any) -> Any:
    """Takes a view of x, and returns the output through a second Function."""
    return Passed.apply(CheckpointByFunc.apply(block, x.view_as(x), *block.parameters()))


class RowLossesBySoftmax(Function):
    """Saves no sums, so backward computes the softmax again. Makes chunks with split and cat."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, chunk: int) -> Any:
        ctx.save_for_backward(x, weight, target)
        ctx.chunk = chunk
        return torch.cat(
            [
                torch.nn.functional.cross_entropy(part @ weight.T, labels, reduction="none")
                for part, labels in zip(x.split(chunk), target.split(chunk), strict=True)
            ]
        )

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, target = ctx.saved_tensors
        grad_weight, parts = torch.zeros_like(weight), []
        chunks = zip(*(t.split(ctx.chunk) for t in (x, target, g)), strict=True)
        for part, labels, own in chunks:
            p = torch.softmax(part @ weight.T, 1)
            p -= torch.nn.functional.one_hot(labels, len(weight))
            p = p * own[:, None]
            parts.append(p @ weight)
            grad_weight = grad_weight + p.T @ part
        return torch.cat(parts), grad_weight, None, None


ALSO_RIGHT = {
    "ELU without a case distinction": ("elu-by-output", ELUByMinimum),
    "maximum, a tie to the first": ("maximum-by-mask", MaximumOfTies),
    "maximum, products with the mask": ("maximum-by-mask", MaximumByProducts),
    "SwiGLU by silu": ("swiglu", SwiGLUBySilu),
    "KiB as floats": ("predict-saved-bytes", (64.0, 128.0, 16.0, 64.0)),
    "the line of the slice": ("card-saved-view", "3b"),
    "linear and ReLU with the bias saved": ("fused-linear-relu", LinearReLUWithBiasSaved),
    "leaky ReLU packed by shifts": ("packed-leaky-relu", LeakyByShifts),
    "coupling, both inputs reconstructed": ("invertible-coupling", CouplingInOtherWords),
    "checkpoint by functional_call": ("checkpointed-block", checkpointed_by_backward),
    "checkpoint by torch.func": ("checkpointed-block", checkpointed_by_func),
    "checkpoint of the package": ("checkpointed-block", lambda block, x: checkpoint(block, x)),
    "row losses by softmax": ("chunked-row-losses", RowLossesBySoftmax),
}


spoiling = Spoiling(RIGHT)
changed = Rewriting("07_memory_patterns")
backward, forward = spoiling.backward, spoiling.forward


class ELUOfInput(SOLVED["ELU"]):  # type: ignore[misc]
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.alpha = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.where(x > 0, 1.0, ctx.alpha * torch.exp(x)), None


class MaximumOfInputs(SOLVED["Maximum"]):  # type: ignore[misc]
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * (a > b), g * (a <= b)


class MaximumOfList(SOLVED["Maximum"]):  # type: ignore[misc]
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.a_wins = (inputs[0] > inputs[1]).tolist()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a_wins = torch.tensor(ctx.a_wins)
        return g * a_wins, g * ~a_wins


class SwiGLUWithSigmoid(Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        s = torch.sigmoid(a)
        ctx.save_for_backward(a, b, s)
        return a * s * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b, s = ctx.saved_tensors
        return g * b * (s + a * s * (1 - s)), g * a * s


class SavesBeforeTheReLU(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        h = torch.addmm(bias, x, weight.t())
        ctx.save_for_backward(x, weight, h)
        return h.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, h = ctx.saved_tensors
        g = g * (h > 0)
        return g @ weight, g.t() @ x, g.sum(0)


class SavesBoth(SavesBeforeTheReLU):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        h = torch.addmm(bias, x, weight.t())
        y = h.clamp(min=0)
        ctx.save_for_backward(x, weight, h)
        ctx.y_shape, ctx.mask = y.shape, (y > 0).tolist()
        ctx.save_for_backward(x, weight, h, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, _, y = ctx.saved_tensors
        g = g * (y > 0)
        return g @ weight, g.t() @ x, g.sum(0)


class PassesAtZero(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        ctx.save_for_backward(x, weight, bias)
        return (x @ weight.t() + bias).clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, weight, bias = ctx.saved_tensors
        g = grad_output * (x @ weight.t() + bias >= 0)
        return g @ weight, g.t() @ x, g.sum(0)


class KeepsAMaskAsArray(SavesBeforeTheReLU):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        h = torch.addmm(bias, x, weight.t())
        ctx.mask = (h > 0).numpy()
        ctx.save_for_backward(x, weight)
        return h.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        g = g * torch.from_numpy(ctx.mask)
        return g @ weight, g.t() @ x, g.sum(0)


class KeepsAList(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.slope, ctx.signs = slope, {"positive": (x > 0).tolist()}
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return torch.where(torch.tensor(ctx.signs["positive"]), g, ctx.slope * g), None


class KeepsABooleanMask(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.save_for_backward(x > 0)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (positive,) = ctx.saved_tensors
        return torch.where(positive, g, ctx.slope * g), None


class PacksOnCtx(SOLVED["PackedLeakyReLU"]):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        y = RIGHT["packed-leaky-relu"].forward(ctx, x, slope)
        ctx.packed = ctx.to_save[0]
        ctx.save_for_backward()
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        mask = _unpacked(ctx, ctx.packed, range(8))
        return torch.where(mask, g, ctx.slope * g), None


def packs_without_filling_up(ctx: Any, x: Any, slope: float) -> Any:
    packed = ((x > 0).reshape(-1, 8) * 2 ** torch.arange(8)).sum(1, dtype=torch.uint8)
    ctx.save_for_backward(packed)
    ctx.shape, ctx.slope = x.shape, slope
    return torch.where(x > 0, x, slope * x)


def packs_a_view(ctx: Any, x: Any, slope: float) -> Any:
    flat = (x > 0).view(-1)
    padded = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
    bits = 2 ** torch.arange(8, device=x.device)
    ctx.save_for_backward((padded * bits).sum(1, dtype=torch.uint8))
    ctx.shape, ctx.slope = x.shape, slope
    return torch.where(x > 0, x, slope * x)


def sums_in_int64(ctx: Any, x: Any, slope: float) -> Any:
    flat = (x > 0).reshape(-1)
    padded = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
    ctx.save_for_backward((padded * 2 ** torch.arange(8)).sum(1))
    ctx.shape, ctx.slope = x.shape, slope
    return torch.where(x > 0, x, slope * x)


def _unpacked(ctx: Any, packed: Any, places: Any) -> Any:
    bits = torch.tensor([2**place for place in places], device=packed.device)
    return (packed[:, None] & bits).ne(0).flatten()[: ctx.shape.numel()].view(ctx.shape)


class CouplingOfInputs(Function):
    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, w: Any, v: Any) -> Any:
        y1 = x1 + torch.tanh(x2 @ w)
        ctx.save_for_backward(x1, x2, w, v)
        return y1, x2 + torch.tanh(y1 @ v)

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        x1, x2, w, v = ctx.saved_tensors
        a = torch.tanh(x2 @ w)
        y1 = x1 + a
        b = torch.tanh(y1 @ v)
        return _coupled(x2, y1, w, v, a, b, g1, g2)


class CouplingOfCopies(combined(SOLVED["Coupling"])):  # type: ignore[misc]
    """Saves copies of the outputs, which take the same number of bytes again."""

    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, w: Any, v: Any) -> Any:
        y1 = x1 + torch.tanh(x2 @ w)
        y2 = x2 + torch.tanh(y1 @ v)
        ctx.save_for_backward(y1.clone(), y2.clone(), w, v)
        return y1, y2


class CouplingOfIntermediates(Function):
    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, w: Any, v: Any) -> Any:
        a = torch.tanh(x2 @ w)
        y1 = x1 + a
        b = torch.tanh(y1 @ v)
        y2 = x2 + b
        ctx.save_for_backward(y1, y2, w, v, a, b)
        return y1, y2

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        y1, y2, w, v, a, b = ctx.saved_tensors
        return _coupled(y2 - b, y1, w, v, a, b, g1, g2)


def _coupled(x2: Any, y1: Any, w: Any, v: Any, a: Any, b: Any, g1: Any, g2: Any) -> Any:
    db = g2 * (1 - b**2)
    g1 = g1 + db @ v.t()
    da = g1 * (1 - a**2)
    return g1, g2 + da @ w.t(), x2.t() @ da, y1.t() @ db


class CouplingWithAnArray(combined(SOLVED["Coupling"])):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x1: Any, x2: Any, w: Any, v: Any) -> Any:
        ctx.x2 = x2.numpy()
        return combined(RIGHT["invertible-coupling"]).forward(ctx, x1, x2, w, v)

    @staticmethod
    def backward(ctx: Any, g1: Any, g2: Any) -> Any:
        y1, _, w, v = ctx.saved_tensors
        x2 = torch.from_numpy(ctx.x2)
        return _coupled(x2, y1, w, v, torch.tanh(x2 @ w), torch.tanh(y1 @ v), g1, g2)


def _wrong_coupling(y1: Any, y2: Any, w: Any, v: Any, g1: Any, g2: Any, which: str) -> Any:
    b = torch.tanh(y1 @ v)
    x2 = {"subtracts nothing": y2, "adds": y2 + b}.get(which, y2 - b)
    db = g2 * (1 - b**2)
    through = g1 if which == "forgets a path" else g1 + db @ v.t()
    da = through * (1 - torch.tanh(x2 @ w) ** 2)
    return through, g2 + da @ w.t(), x2.t() @ da, y1.t() @ db


def _checkpoint(**instead: Any) -> Any:
    """Return a checkpoint like the solution's, but with one mistake."""

    class Checkpointed(Function):
        @staticmethod
        def forward(ctx: Any, block: Any, x: Any, *parameters: Any) -> Any:
            if instead.get("seeds"):
                torch.manual_seed(7)
            block.train(not instead.get("evaluates"))
            ctx.block, ctx.state = block, torch.get_rng_state()
            ctx.save_for_backward(x, *parameters)
            if instead.get("by_seed"):
                ctx.state = torch.Generator().manual_seed(torch.initial_seed()).get_state()
            if instead.get("on_ctx"):
                ctx.x = x
            if instead.get("keeps"):
                ctx.kept = block[0](x)
            return block(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, *parameters = ctx.saved_tensors
            x = x.detach().requires_grad_()
            enabled = torch.set_grad_enabled(instead.get("enable", True))
            fork = torch.random.fork_rng(enabled=instead.get("fork", True))
            with enabled, fork:
                if instead.get("state", True):
                    torch.set_rng_state(ctx.state)
                late = torch.get_rng_state()
                y = ctx.block(x)
                if instead.get("late"):
                    torch.set_rng_state(late)
            if instead.get("silent"):
                y.backward(g)
                return None, x.grad, *(None for _ in parameters)
            if instead.get("writes"):
                y.backward(g)
                return None, x.grad, *(p.grad for p in parameters)
            found = torch.autograd.grad(y, (x, *parameters), g)
            return None, *found

    def checkpointed(block: Any, x: Any) -> Any:
        given = () if instead.get("parameters") is False else block.parameters()
        return Checkpointed.apply(block, x, *given)

    return checkpointed


class RowLossesEarly(Function):
    """Computes the gradients of the plain sum in forward."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, chunk: int) -> Any:
        p = torch.softmax(x @ weight.T, 1) - torch.nn.functional.one_hot(target, len(weight))
        ctx.save_for_backward(p @ weight, p.T @ x)
        return torch.nn.functional.cross_entropy(x @ weight.T, target, reduction="none")

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        grad_x, grad_weight = ctx.saved_tensors
        return g[:, None] * grad_x, g.sum() * grad_weight, None, None


class RowLossesWhole(Function):
    """Computes all logits at once, and saves the softmax."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, chunk: int) -> Any:
        logits = x @ weight.T
        ctx.save_for_backward(x, weight, target, torch.softmax(logits, 1))
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, target, p = ctx.saved_tensors
        p = (p - torch.nn.functional.one_hot(target, len(weight))) * g[:, None]
        return p @ weight, p.T @ x, None, None


class RowLossesWholeInBackward(SOLVED["RowLosses"]):  # type: ignore[misc]
    """Processes chunks in forward, but everything at once in backward."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, target, log_sums = ctx.saved_tensors
        p = torch.exp(x @ weight.T - log_sums[:, None])
        p = (p - torch.nn.functional.one_hot(target, len(weight))) * g[:, None]
        return p @ weight, p.T @ x, None, None


class RowLossesWholeInForward(SOLVED["RowLosses"]):  # type: ignore[misc]
    """Processes everything at once in forward, but chunks in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, chunk: int) -> Any:
        logits = x @ weight.T
        log_sums = torch.logsumexp(logits, 1)
        ctx.save_for_backward(x, weight, target, log_sums)
        ctx.chunk = chunk
        return log_sums - logits.gather(1, target[:, None]).squeeze(1)


class RowLossesListed(SOLVED["RowLosses"]):  # type: ignore[misc]
    """Keeps the gradients of the weight of all chunks, and adds them up at the end."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, target, log_sums = ctx.saved_tensors
        parts = zip(*(it.split(ctx.chunk) for it in (x, target, log_sums, g)), strict=True)
        grads_x, grads_weight = [], []
        for rows, labels, sums, own in parts:
            p = torch.exp(rows @ weight.T - sums[:, None])
            p = (p - torch.nn.functional.one_hot(labels, len(weight))) * own[:, None]
            grads_x.append(p @ weight)
            grads_weight.append(p.T @ rows)
        return torch.cat(grads_x), sum(grads_weight), None, None


def _rows(ctx: Any, x: Any, weight: Any, target: Any, log_sums: Any, g: Any, which: str) -> Any:
    grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
    for begin in range(0, len(x), ctx.chunk):
        rows = slice(begin, begin + ctx.chunk)
        p = torch.exp(x[rows] @ weight.T - log_sums[rows, None])
        if which != "no one-hot":
            p[torch.arange(len(p)), target[rows]] -= 1
        p *= g[:1, None] if which == "one g" else g[rows, None]
        grad_x[rows] = p @ weight
        if which == "last chunk":
            grad_weight = p.T @ x[rows]
        else:
            grad_weight += p.T @ x[rows]
    return grad_x, grad_weight, None, None


WRONG = [
    Wrong("elu-by-output", "saves the input", "oversaved", ELUOfInput),
    backward(
        "elu-by-output",
        "forgets alpha in the slope",
        "wrong-region",
        lambda ctx, y, g: (g * torch.where(y > 0, 1.0, y), None),
    ),
    backward(
        "elu-by-output",
        "takes y for x",
        "wrong-region",
        lambda ctx, y, g: (g * torch.where(y > 0, 1.0, ctx.alpha * torch.exp(y)), None),
    ),
    backward(
        "elu-by-output",
        "adds 1 and not alpha",
        "wrong-region",
        lambda ctx, y, g: (g * torch.where(y > 0, 1.0, y + 1), None),
    ),
    Wrong("maximum-by-mask", "saves both inputs", "oversaved", MaximumOfInputs),
    Wrong("maximum-by-mask", "a list of booleans", "outside of any tensor", MaximumOfList),
    backward(
        "maximum-by-mask",
        "exchanges the inputs",
        "swapped-gradients",
        lambda ctx, a_wins, g: (g * ~a_wins, g * a_wins),
    ),
    backward(
        "maximum-by-mask",
        "gives both the gradient",
        "wrong-region",
        lambda ctx, a_wins, g: (g, g * ~a_wins),
    ),
    Wrong("swiglu", "saves the sigmoid too", "oversaved", SwiGLUWithSigmoid),
    backward(
        "swiglu",
        "stops at the sigmoid",
        "gradient-mismatch",
        lambda ctx, a, b, g: (g * b * torch.sigmoid(a), g * a * torch.sigmoid(a)),
    ),
    backward(
        "swiglu",
        "forgets b",
        "gradient-mismatch",
        lambda ctx, a, b, g: (
            g * (torch.sigmoid(a) + a * torch.sigmoid(a) * (1 - torch.sigmoid(a))),
            g * a * torch.sigmoid(a),
        ),
    ),
    backward(
        "swiglu",
        "returns the gradients in the wrong order",
        "swapped-gradients",
        lambda ctx, a, b, g: SOLVED["SwiGLU"].backward(ctx, g)[::-1],
    ),
    Wrong("predict-saved-bytes", "relu saves its input too", "An addition", [128, 128, 16, 64]),
    Wrong("predict-saved-bytes", "counts a tensor twice", "in one storage", [64, 192, 16, 64]),
    Wrong("predict-saved-bytes", "a mask of floats", "requires no gradient", [64, 128, 64, 64]),
    Wrong("predict-saved-bytes", "a mask of bits", "takes one byte", [64, 128, 2, 64]),
    Wrong("predict-saved-bytes", "the slice", "a storage stays as a whole", [64, 128, 16, 1]),
    Wrong("card-saved-view", "the temporary result", "unless a saved tensor", "1b"),
    Wrong("card-saved-view", "the recomputation", "already resident", "7b"),
    Wrong("card-saved-view", "counts nbytes", "A copy gives the same number", "4a"),
    Wrong("card-saved-view", "gradcheck", "the same values as a copy", "3c"),
    Wrong("card-saved-view", "counts tensors", "the same with a copy", "4d"),
    Wrong("fused-linear-relu", "saves what the ReLU got", "oversaved", SavesBeforeTheReLU),
    Wrong("fused-linear-relu", "passes at 0", "kink-convention", PassesAtZero),
    Wrong("fused-linear-relu", "saves it and the output", "oversaved", SavesBoth),
    Wrong("fused-linear-relu", "a mask as an array", "another kind of object", KeepsAMaskAsArray),
    backward(
        "fused-linear-relu",
        "forgets the ReLU",
        "gradient-mismatch",
        lambda ctx, x, weight, y, g: (g @ weight, g.t() @ x, g.sum(0)),
    ),
    backward(
        "fused-linear-relu",
        "forgets the ReLU for the bias",
        "gradient-mismatch",
        lambda ctx, x, weight, y, g: (
            *((g * (y > 0)) @ weight, (g * (y > 0)).t() @ x),
            g.sum(0),
        ),
    ),
    backward(
        "fused-linear-relu",
        "keeps the dim of the bias' gradient",
        "unreduced-broadcast",
        lambda ctx, x, weight, y, g: (
            *((g * (y > 0)) @ weight, (g * (y > 0)).t() @ x),
            (g * (y > 0)).sum(0, keepdim=True),
        ),
    ),
    backward(
        "fused-linear-relu",
        "multiplies by the output, not by its sign",
        "gradient-mismatch",
        lambda ctx, x, weight, y, g: ((g * y) @ weight, (g * y).t() @ x, (g * y).sum(0)),
    ),
    Wrong("packed-leaky-relu", "a boolean mask", "oversaved", KeepsABooleanMask),
    Wrong("packed-leaky-relu", "a list of signs", "outside of any tensor", KeepsAList),
    forward("packed-leaky-relu", "sums to int64", "oversaved", sums_in_int64)._replace(
        hint="unless you pass dtype=torch.uint8"
    ),
    Wrong("packed-leaky-relu", "packed, but on ctx", "tensor-on-ctx", PacksOnCtx),
    forward(
        "packed-leaky-relu",
        "does not fill up to a multiple of 8",
        "`forward` raises RuntimeError",
        packs_without_filling_up,
    ),
    backward(
        "packed-leaky-relu",
        "unpacks in the other order",
        "gradient-mismatch",
        lambda ctx, packed, g: (
            torch.where(_unpacked(ctx, packed, reversed(range(8))), g, ctx.slope * g),
            None,
        ),
        "in reverse",
    ),
    backward(
        "packed-leaky-relu",
        "exchanges the sides",
        "gradient-mismatch",
        lambda ctx, packed, g: (
            torch.where(_unpacked(ctx, packed, range(8)), ctx.slope * g, g),
            None,
        ),
        "The two sides are exchanged",
    ),
    forward("packed-leaky-relu", "views the mask", "input-layout", packs_a_view),
    backward(
        "packed-leaky-relu",
        "unpacks on the CPU",
        "gradient-device",
        lambda ctx, packed, g: (
            (packed[:, None] & 2 ** torch.arange(8)).ne(0).flatten()[: g.numel()].view(ctx.shape)
            * ((1 - ctx.slope) * g)
            + ctx.slope * g,
            None,
        ),
    ),
    backward(
        "packed-leaky-relu",
        "forgets the slope",
        "wrong-region",
        lambda ctx, packed, g: (g * _unpacked(ctx, packed, range(8)), None),
    ),
    *(
        changed("invertible-coupling", mistake, rule, change, hint=hint)
        for mistake, rule, hint, change in [
            (
                "first tanh of y2",
                "gradient-mismatch",
                "recomputes the first tanh from y2",
                ("torch.tanh(x2 @ w)\n        grad_a", "torch.tanh(y2 @ w)\n        grad_a"),
            ),
            (
                "no square",
                "gradient-mismatch",
                "in the second line is 1 - tanh here",
                ("(1 - b**2)", "(1 - b)"),
            ),
            (
                "a sum",
                "gradient-mismatch",
                "in the first line is 1 + tanh²",
                ("(1 - a**2)", "(1 + a**2)"),
            ),
            (
                "the inputs",
                "gradient-mismatch",
                "x1 and x2 in the place of",
                ("save_for_backward(*output, w, v)", "save_for_backward(*inputs)"),
            ),
            ("no x2", "forward-mismatch", "does not add x2", ("y2 = x2 + torch", "y2 = torch")),
        ]
    ),
    Wrong("invertible-coupling", "saves the inputs", "oversaved", CouplingOfInputs),
    Wrong("invertible-coupling", "saves copies of the outputs", "oversaved", CouplingOfCopies),
    Wrong("invertible-coupling", "x2 as an array", "another kind of object", CouplingWithAnArray),
    Wrong("invertible-coupling", "saves the tanhs too", "oversaved", CouplingOfIntermediates),
    *(
        backward(
            "invertible-coupling",
            mistake,
            rule,
            lambda ctx, *saved_and_g, mistake=mistake: _wrong_coupling(*saved_and_g, mistake),
        )
        for mistake, rule in (
            ("subtracts nothing", "gradient-mismatch"),
            ("adds", "gradient-mismatch"),
            ("forgets a path", "missing-dependency"),
        )
    ),
    *(
        Wrong("checkpointed-block", mistake, said, _checkpoint(**instead))
        for mistake, said, instead in (
            ("parameters are no inputs", "no gradient arrives", {"parameters": False}),
            ("runs again under no grad", "records no graph", {"enable": False}),
            ("draws a new mask", "draws a different mask", {"state": False}),
            ("leaves the old random state", "changes the random state, so", {"fork": False}),
            ("reads the state late", "forward began with", {"fork": False, "late": True}),
            ("writes into .grad", "writes into .grad", {"writes": True}),
            ("only writes into .grad", "backward returns None for each", {"silent": True}),
            ("sets a seed in forward", "changes the random state, or", {"seeds": True}),
            ("switches dropout off", "changes the random state, or", {"evaluates": True}),
            ("keeps the seed, not the state", "A seed is only the first", {"by_seed": True}),
            ("keeps x on ctx", "ctx.x holds the input", {"on_ctx": True}),
            ("keeps an activation", "are saved for backward", {"keeps": True}),
            ("thinks of no frozen parts", "if a parameter is frozen", {}),
        )
    ),
    Wrong(
        "checkpointed-block",
        "PyTorch's own",
        "this is torch.utils.checkpoint",
        lambda block, x: of_torch.checkpoint(block, x, use_reentrant=True),
    ),
    Wrong(
        "checkpointed-block",
        "PyTorch's own, without reentry",
        "something like torch.utils.checkpoint",
        lambda block, x: of_torch.checkpoint(block, x, use_reentrant=False),
    ),
    Wrong(
        "checkpointed-block",
        "no checkpoint, in a Function",
        "the graph saves its intermediate results",
        lambda block, x: Passed.apply(block(x)),
    ),
    Wrong(
        "checkpointed-block",
        "no checkpoint at all",
        "the block ran with a graph",
        lambda block, x: block(x),
    ),
    Wrong("chunked-row-losses", "gradients computed early", "uniform-grad-output", RowLossesEarly),
    Wrong("chunked-row-losses", "keeps the softmax", "oversaved", RowLossesWhole),
    Wrong("chunked-row-losses", "whole in forward", "oversaved", RowLossesWholeInForward),
    Wrong("chunked-row-losses", "whole in backward", "oversaved", RowLossesWholeInBackward),
    Wrong("chunked-row-losses", "lists the gradients", "oversaved", RowLossesListed),
    *(
        backward(
            "chunked-row-losses",
            mistake,
            rule,
            lambda ctx, *saved_and_g, mistake=mistake: _rows(ctx, *saved_and_g, mistake),
        )
        for mistake, rule in (
            ("no one-hot", "gradient-mismatch"),
            ("one g", "uniform-grad-output"),
            ("last chunk", "uniform-grad-output"),
        )
    ),
    changed(
        "elu-by-output",
        "exp(y) instead of y+alpha",
        "Your formula contains",
        ("y + ctx.alpha", "ctx.alpha * torch.exp(y)"),
    ),
    changed("elu-by-output", "y + 1", "Where y ≤ 0, you use y +", ("y + ctx.alpha", "y + 1")),
    changed(
        "elu-by-output",
        "y (forgot + alpha)",
        "Where y ≤ 0, you use y itself",
        ("y + ctx.alpha", "y"),
    ),
    changed(
        "elu-by-output",
        "alpha*(y+1)",
        "Where y ≤ 0, you use alpha ·",
        ("y + ctx.alpha", "ctx.alpha * (y + 1)"),
    ),
    changed(
        "elu-by-output",
        "forward without -1",
        "Where x ≤ 0, your result",
        ("torch.expm1(x)", "torch.exp(x)"),
    ),
    changed(
        "elu-by-output",
        "sides swapped",
        "The two sides are exchanged",
        ("1.0, y + ctx.alpha", "y + ctx.alpha, 1.0"),
    ),
    changed(
        "elu-by-output",
        "clamp alpha",
        "alpha is inside the exponential",
        ("alpha * torch.expm1(x)", "torch.expm1(alpha*x)"),
    ),
    changed(
        "maximum-by-mask",
        "~ on uint8",
        "~ inverts all eight bits",
        ("a > b)", "(a > b).to(torch.uint8))"),
    ),
    changed(
        "swiglu",
        "silu' without product",
        "The gradient of a contains only a",
        ("(sigma + a * sigma * (1 - sigma))", "a * sigma * (1 - sigma)"),
    ),
    changed(
        "swiglu",
        "sigma only",
        "The gradient of a contains only σ(a)",
        ("(sigma + a * sigma * (1 - sigma))", "sigma"),
    ),
    changed(
        "swiglu",
        "gate on b",
        "The sigmoid is computed",
        ("a * torch.sigmoid(a) * b", "b * torch.sigmoid(b) * a"),
    ),
    changed(
        "swiglu",
        "forgets a in 2nd term",
        "In the gradient of a,",
        ("a * sigma * (1 - sigma)", "sigma * (1 - sigma)"),
    ),
    changed(
        "swiglu",
        "sigma' only",
        "The gradient of a contains only the",
        ("(sigma + a * sigma * (1 - sigma))", "sigma * (1 - sigma)"),
    ),
    changed(
        "swiglu",
        "sigma of b",
        "backward computes the",
        ("torch.sigmoid(a)\n        grad", "torch.sigmoid(b)\n        grad"),
    ),
    changed(
        "swiglu",
        "1+sigma",
        "The derivative of σ is",
        ("a * sigma * (1 - sigma)", "a * sigma * (1 + sigma)"),
    ),
    changed(
        "fused-linear-relu",
        "mask by x@w no bias",
        "The mask compares x Wᵀ",
        ("(y > 0)", "((x @ weight.t()) > 0)"),
    ),
    changed(
        "fused-linear-relu",
        "weight mask forgotten",
        "The gradient of weight passes",
        ("g.t() @ x", "grad_output.t() @ x"),
    ),
    changed(
        "fused-linear-relu",
        "forward no bias",
        "The bias is added after",
        ("torch.addmm(bias, x, weight.t()).clamp_(min=0)", "(x @ weight.t()).clamp_(min=0) + bias"),
    ),
    changed("fused-linear-relu", "y >= 0", "The gradient passes even", ("y > 0", "y >= 0")),
    changed(
        "packed-leaky-relu",
        "bits 1..8",
        "The last of the eight",
        (
            "bits = 2 ** torch.arange(8, device=x.device)",
            "bits = 2 ** torch.arange(1,9, device=x.device)",
        ),
        (
            "bits = 2 ** torch.arange(8, device=packed.device)",
            "bits = 2 ** torch.arange(1,9, device=packed.device)",
        ),
    ),
    changed(
        "packed-leaky-relu",
        "bits arange no power",
        "The elements of a byte",
        ("bits = 2 ** torch.arange(8, device=x.device)", "bits = torch.arange(8, device=x.device)"),
    ),
    changed(
        "packed-leaky-relu",
        "reshape to 8,-1",
        "Packing and unpacking group",
        (".reshape(-1, 8)", ".reshape(8, -1).t()"),
    ),
    changed("packed-leaky-relu", "&bits == 1", "packed & bit is the value", (".ne(0)", ".eq(1)")),
    changed("packed-leaky-relu", "&bits > 1", "The first bit of each", (".ne(0)", ".gt(1)")),
    changed(
        "packed-leaky-relu",
        "pad in front",
        "The padding is in front",
        ("[flat, flat.new_zeros(-flat.numel() % 8)]", "[flat.new_zeros(-flat.numel() % 8), flat]"),
    ),
    changed(
        "packed-leaky-relu",
        "cuts padding from front",
        "The padding is at the",
        ("flat[: ctx.shape.numel()]", "flat[-ctx.shape.numel() :]"),
    ),
    changed(
        "packed-leaky-relu",
        "mask of output",
        "The mask holds the signs",
        (
            "flat = (x > 0).reshape(-1)\n",
            "y = torch.where(x > 0, x, slope * x); flat = (y > 0).reshape(-1)\n",
        ),
    ),
    changed(
        "packed-leaky-relu",
        "float64 mask rule slope missing neg",
        "max(x, slope · x) takes",
        ("torch.where(x > 0, x, slope * x)", "torch.maximum(x, slope * x)"),
    ),
    changed(
        "elu-by-output", "alpha", "Where y ≤ 0, you use alpha as", ("y + ctx.alpha", "ctx.alpha")
    ),
    changed(
        "elu-by-output",
        "fwd alpha*exp-1",
        "alpha multiplies only",
        ("alpha * torch.expm1(x)", "alpha * torch.exp(x) - 1"),
    ),
    changed(
        "invertible-coupling", "y2 for x2", "backward uses y2 where", ("x2 = y2 - b", "x2 = y2")
    ),
    changed(
        "invertible-coupling",
        "grad w y2",
        "The gradient of w contains",
        ("x2.t() @ grad_a", "y2.t() @ grad_a"),
    ),
    changed(
        "invertible-coupling",
        "no y1 path",
        "The path from y2 through",
        ("        grad_y1 = grad_y1 + grad_b @ v.t()\n", ""),
    ),
    changed(
        "invertible-coupling",
        "x1 not updated",
        "You add the path from",
        ("grad_y1 = grad_y1 + grad_b @ v.t()", "whole = grad_y1 + grad_b @ v.t()"),
        ("grad_a = grad_y1", "grad_a = whole"),
    ),
    changed(
        "invertible-coupling",
        "no x2 path",
        "The path from y1 to x2",
        ("grad_y2 + grad_a @ w.t()", "grad_y2"),
    ),
    changed(
        "invertible-coupling",
        "slope a",
        "The derivative of the tanh in the first",
        ("grad_y1 * (1 - a**2)", "grad_y1"),
    ),
    changed(
        "invertible-coupling",
        "slope b",
        "The derivative of the tanh in the second",
        ("grad_y2 * (1 - b**2)", "grad_y2"),
    ),
    changed(
        "invertible-coupling",
        "x1 reconstr wrong grad v x1",
        "The gradient of v contains",
        ("y1.t() @ grad_b", "(y1 - a).t() @ grad_b"),
    ),
    changed(
        "invertible-coupling",
        "fwd x1",
        "The second line uses",
        ("torch.tanh(y1 @ v)\n        return", "torch.tanh(x1 @ v)\n        return"),
    ),
    changed(
        "invertible-coupling",
        "sub order: x2 path uses g wrong",
        "The direct path from",
        ("grad_y2 + grad_a @ w.t()", "grad_a @ w.t()"),
    ),
    changed(
        "chunked-row-losses",
        "slope[:, t]",
        "You subtract 1 in the",
        ("slope[torch.arange(len(slope)), target[rows]] -= 1", "slope[:, target[rows]] -= 1"),
    ),
    changed(
        "chunked-row-losses",
        "1 after g",
        "grad_output multiplies only the softmax",
        ("slope[torch.arange(len(slope)), target[rows]] -= 1\n            ", ""),
        (
            "slope *= grad_output[rows, None]\n",
            "slope *= grad_output[rows, None]\n"
            "            slope[torch.arange(len(slope)), target[rows]] -= 1\n",
        ),
    ),
    changed(
        "chunked-row-losses",
        "no g for weight",
        "grad_output is in the gradient of x,",
        (
            "slope *= grad_output[rows, None]\n            grad_x[rows] = slope @ weight\n",
            "grad_x[rows] = (slope * grad_output[rows, None]) @ weight\n",
        ),
    ),
    changed(
        "chunked-row-losses",
        "overwrites the gradient of the weight",
        "The gradient of the weight",
        ("grad_weight +=", "grad_weight ="),
    ),
    changed(
        "chunked-row-losses",
        "range drops the last",
        "The rows of the last chunk stay",
        ("x.new_empty(len(x))", "x.new_zeros(len(x))"),
        ("range(0, len(x), chunk)", "range(0, len(x) - chunk + 1, chunk)"),
    ),
    changed(
        "chunked-row-losses",
        "range bwd drops the last",
        "The rows of the last chunk are",
        ("torch.empty_like(x)", "torch.zeros_like(x)"),
        ("range(0, len(x), ctx.chunk)", "range(0, len(x) - ctx.chunk + 1, ctx.chunk)"),
    ),
    changed(
        "chunked-row-losses",
        "target offset",
        "Every chunk reads the first elements of target",
        ("target[rows]] -= 1", "target[: len(slope)]] -= 1"),
    ),
    changed(
        "chunked-row-losses",
        "g offset",
        "Every chunk reads the first elements of grad_output",
        ("grad_output[rows, None]", "grad_output[: len(slope), None]"),
    ),
    changed(
        "chunked-row-losses",
        "lse offset",
        "Every chunk reads the first elements of the",
        ("log_sums[rows, None]", "log_sums[: len(x[rows]), None]"),
    ),
    changed(
        "chunked-row-losses",
        "fwd target offset",
        "Every chunk reads the first targets",
        ("target[rows, None]", "target[: len(logits), None]"),
    ),
    changed(
        "chunked-row-losses",
        "no lse",
        "Each row of exp(z) must",
        (
            "torch.exp(x[rows] @ weight.t() - log_sums[rows, None])",
            "torch.exp(x[rows] @ weight.t())",
        ),
    ),
    changed(
        "chunked-row-losses",
        "a mean over the chunk",
        "divided by the number of rows in a chunk",
        ("slope *= grad_output[rows, None]", "slope *= grad_output[rows, None] / len(slope)"),
    ),
    changed(
        "packed-leaky-relu",
        "a whole byte of padding",
        "one byte too many",
        ("-flat.numel() % 8", "8 - flat.numel() % 8"),
    ),
    changed(
        "packed-leaky-relu",
        "pads each row",
        "Each row is padded by itself",
        ("flat = (x > 0).reshape(-1)", "flat = (x > 0).reshape(-1, x.shape[-1] if x.dim() else 1)"),
        (
            "torch.cat([flat, flat.new_zeros(-flat.numel() % 8)])",
            "torch.nn.functional.pad(flat, (0, -flat.shape[1] % 8))",
        ),
        (
            "positive = flat[: ctx.shape.numel()]",
            "width = ctx.shape[-1] if ctx.shape else 1\n"
            "        positive = flat.reshape(-1, -(-width // 8) * 8)[:, :width]",
        ),
    ),
    changed(
        "maximum-by-mask",
        "neither at a tie",
        "neither input gets the gradient",
        ("a > b)", "torch.sign(a - b).to(torch.int8))"),
        (
            "grad_output * a_wins, grad_output * ~a_wins",
            "grad_output * (a_wins > 0), grad_output * (a_wins < 0)",
        ),
    ),
    changed(
        "maximum-by-mask",
        "both at a tie",
        "both inputs get the gradient",
        ("a > b)", "(a >= b).to(torch.int8) + 2 * (b >= a).to(torch.int8))"),
        (
            "grad_output * a_wins, grad_output * ~a_wins",
            "grad_output * (a_wins & 1), grad_output * (a_wins // 2)",
        ),
    ),
]


KNOWN = [
    (
        "fused-linear-relu",
        (double(1, 2).reshape(1, 2), double(3, 4, -3, -4).reshape(2, 2), double(-1, 1)),
        double(10, 0).reshape(1, 2),
    ),
    ("packed-leaky-relu", (double(-2, 0, 3), 0.5), double(-1, 0, 3)),
    (
        "invertible-coupling",
        (double(1).reshape(1, 1), double(0).reshape(1, 1), *(double(5).reshape(1, 1),) * 2),
        (double(1).reshape(1, 1), torch.tanh(double(5)).reshape(1, 1)),
    ),
    (
        "chunked-row-losses",
        (double(0, 1).reshape(2, 1), double(0, math.log(3)).reshape(2, 1), torch.tensor([1, 0]), 1),
        double(math.log(2), math.log(4)),
    ),
]
