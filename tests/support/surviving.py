"""Use different kinds of Functions with the tools that people use around Functions.

Each Function halves its gradient, so the gradient shows whether a tool used `backward`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn, vmap
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.library import custom_op, register_vmap
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from autograd_course.replicas import LOOPBACK
from autograd_course.ship import quiet, run_onnx

# --- the rows: y = x w and its half gradient ------------------------------------------------------


def halves(x: Tensor, weight: Tensor, grad_output: Tensor) -> tuple[Tensor, Tensor]:
    return grad_output @ weight.mT / 2, x.mT @ grad_output / 2


class Combined(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        return halves(*ctx.saved_tensors, grad_output)


class Separate(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        return halves(*ctx.saved_tensors, grad_output)


class Attribute(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, factor: float) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.factor = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        return ctx.factor * grad_output @ weight.mT, ctx.factor * x.mT @ grad_output, None


class Once(Separate):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        return halves(*ctx.saved_tensors, grad_output)


class InPlace(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        x.exp_()
        return x  # torch.compile breaks the graph at `return x.exp_()`

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.mark_dirty(*inputs)
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad_output * y / 2


class WithMask(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ weight
        return y, y.sigmoid()

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]
    ) -> None:
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        return halves(*ctx.saved_tensors, grad_output)


class Batched(Separate):
    generate_vmap_rule = True


class Forward(Separate):
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, weight_tangent: Tensor) -> Tensor:
        x, weight = ctx.saved_tensors
        return (x_tangent @ weight + x @ weight_tangent) / 2


class CombinedUnderAutocast(Combined):
    forward = staticmethod(custom_fwd(Combined.forward, device_type="cpu"))
    backward = staticmethod(custom_bwd(Combined.backward, device_type="cpu"))


class UnderAutocast(Separate):
    setup_context = staticmethod(custom_fwd(Separate.setup_context, device_type="cpu"))
    backward = staticmethod(custom_bwd(Separate.backward, device_type="cpu"))


class AttributeUnderAutocast(Attribute):
    setup_context = staticmethod(custom_fwd(Attribute.setup_context, device_type="cpu"))
    backward = staticmethod(custom_bwd(Attribute.backward, device_type="cpu"))


class OnceUnderAutocast(UnderAutocast):
    backward = staticmethod(once_differentiable(UnderAutocast.backward))


class WithMaskUnderAutocast(WithMask):
    setup_context = staticmethod(custom_fwd(WithMask.setup_context, device_type="cpu"))
    backward = staticmethod(custom_bwd(WithMask.backward, device_type="cpu"))


class BatchedUnderAutocast(UnderAutocast):
    generate_vmap_rule = True


class ForwardUnderAutocast(Forward):
    setup_context = staticmethod(custom_fwd(Forward.setup_context, device_type="cpu"))
    backward = staticmethod(custom_bwd(Forward.backward, device_type="cpu"))


def operator(name: str) -> Any:
    made = custom_op(f"surviving::{name}", Separate.forward, mutates_args=())
    made.register_fake(lambda x, weight: x @ weight)
    made.register_autograd(Separate.backward, setup_context=Separate.setup_context)
    return made


halved, halved_under_autocast = operator("halved"), operator("halved_under_autocast")
halved_under_autocast.register_autocast("cpu", torch.bfloat16)
register_vmap(halved, lambda info, in_dims, x, weight: (halved(x, weight), 0))


def mapped(call: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return y = x w, computed by one call for each row of x."""
    return lambda x, weight: vmap(call, (0, None))(x[:, None], weight)[:, 0]


# --- the columns ----------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self, call: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.call = call
        self.weight = nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3))

    def forward(self, x: Tensor) -> Any:
        return self.call(x, self.weight)


X = torch.linspace(-1, 2, 6).reshape(2, 3)
Run = Callable[[Tensor], Any]


def compiled(model: Model) -> Run:
    torch._dynamo.reset()
    return torch.compile(model, backend="aot_eager", fullgraph=True)


def compiled_in_parts(model: Model) -> Run:
    torch._dynamo.reset()
    return torch.compile(model, backend="aot_eager")


def exported(model: Model) -> Run:
    return torch.export.export(model, (X,)).module()


def in_onnx(model: Model, table: Mapping[Any, Any] | None = None) -> Run:
    program = torch.onnx.export(
        model.eval(), (X,), dynamo=True, verbose=False, custom_translation_table=table
    )
    return lambda x: run_onnx(program, x)


def in_onnx_translated(model: Model) -> Run:
    from onnxscript import opset18  # the import is slow, and few tests need it

    return in_onnx(model, {torch.ops.surviving.halved.default: opset18.MatMul})


def under_autocast(model: Model) -> Run:
    return torch.autocast("cpu", torch.bfloat16)(model)


def checkpointed(model: Model) -> Run:
    return lambda x: checkpoint(model, x, use_reentrant=False)


TOOLS: dict[str, Callable[[Model], Run]] = {
    "`torch.compile`": compiled,
    "`torch.export`": exported,
    "ONNX": in_onnx,
    "DDP": DistributedDataParallel,
    "autocast": under_autocast,
    "checkpoint": checkpointed,
}


@contextmanager
def one_process(folder: Path, monkeypatch: Any) -> Iterator[None]:
    """Provide DDP with a process group of one process, using gloo."""
    if sys.platform in LOOPBACK:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    dist.init_process_group("gloo", (folder / "meeting").as_uri(), world_size=1, rank=0)
    try:
        yield
    finally:
        dist.destroy_process_group()


# --- the cells ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A way to call a Function. ``repairs`` maps a tool to a change that makes it work."""

    call: Callable[[Tensor, Tensor], Any]
    twice: bool = False
    repairs: Mapping[str, tuple[str, Callable[[Tensor, Tensor], Any]]] = field(default_factory=dict)

    def cell(self, tool: str) -> str:
        """Return the text that the page must show for this row and a tool."""
        found = verdict(TOOLS[tool], self.call, self.twice)
        if tool == "ONNX" and "ConversionError" in found:
            translated = verdict(in_onnx_translated, self.call, self.twice)
            return f"{found}; with a translation: {translated}"
        if tool not in self.repairs:
            return found
        name, call = self.repairs[tool]
        return f"{found}; {name}: {verdict(TOOLS[tool], call, self.twice)}"


def verdict(tool: Callable[[Model], Run], call: Any, twice: bool) -> str:
    """Run a model with a tool. Compare its values and gradients with those of eager mode."""
    model = Model(call)
    values, gradients = results(model, model, twice)
    with quiet(), warnings.catch_warnings():
        try:
            run = tool(model)
            found, their_gradients = results(run, model, twice)
        except torch._dynamo.exc.Unsupported:
            assert verdict(compiled_in_parts, call, twice) == "works"
            return "breaks the graph"
        except Exception as error:
            return f"raises `{type(error).__name__}`"
    size = 0.05 if found[0].dtype == torch.bfloat16 else 1e-5
    assert close(found, values, size)
    if not found[0].requires_grad:
        return "values only"
    return "works" if close(their_gradients, gradients, size) else "**drops `backward`**"


def results(run: Run, model: Model, twice: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs, and the gradients of the input and the weight."""
    x = X.clone().requires_grad_()
    outputs = run(x)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if not outputs[0].requires_grad:
        return outputs, []
    loss = sum(output.square().sum() for output in outputs if output.requires_grad)
    if twice:
        loss = torch.autograd.grad(loss, x, create_graph=True)[0].square().sum()
    (weight,) = (run if isinstance(run, nn.Module) else model).parameters()
    x.grad = weight.grad = None
    loss.backward()  # DDP does not see `torch.autograd.grad`
    return outputs, [x.grad, weight.grad]


def close(found: list[Tensor], right: list[Tensor], size: float) -> bool:
    return all(
        torch.allclose(a.float(), b, rtol=size, atol=size)
        for a, b in zip(found, right, strict=True)
    )


def amp(call: Any) -> dict[str, tuple[str, Any]]:
    return {"autocast": ("with `custom_fwd`", call)}


ROWS = {
    "combined `forward(ctx, …)`": Row(Combined.apply, repairs=amp(CombinedUnderAutocast.apply)),
    "separate `setup_context`": Row(Separate.apply, repairs=amp(UnderAutocast.apply)),
    "number stored on `ctx`": Row(
        lambda x, weight: Attribute.apply(x, weight, 0.5),
        repairs=amp(lambda x, weight: AttributeUnderAutocast.apply(x, weight, 0.5)),
    ),
    "`once_differentiable`": Row(Once.apply, repairs=amp(OnceUnderAutocast.apply)),
    "in place, `mark_dirty`": Row(lambda x, weight: InPlace.apply(x @ weight)),
    "`mark_non_differentiable`": Row(WithMask.apply, repairs=amp(WithMaskUnderAutocast.apply)),
    "second derivative": Row(Separate.apply, twice=True, repairs=amp(UnderAutocast.apply)),
    "called by `vmap`": Row(
        mapped(Batched.apply),
        repairs={
            **amp(mapped(BatchedUnderAutocast.apply)),
            "`torch.compile`": ("as operator", mapped(halved)),
            "`torch.export`": ("as operator", mapped(halved)),
        },
    ),
    "defines `jvp`": Row(Forward.apply, repairs=amp(ForwardUnderAutocast.apply)),
    "custom operator": Row(
        halved, repairs={"autocast": ("with `register_autocast`", halved_under_autocast)}
    ),
}


def row(name: str) -> str:
    """Return one row of the page's table."""
    return f"| {name} | {' | '.join(ROWS[name].cell(tool) for tool in TOOLS)} |"


# --- Python code inside forward -------------------------------------------------------------------

SEEN: list[Any] = []


class Counter(Function):
    calls = 0


def with_counter(x: Tensor) -> Tensor:
    Counter.calls += 1
    return 2 * x


def halved_until_small(x: Tensor) -> Tensor:
    while x.abs().max() > 1:
        x = x / 2
    return x


@custom_op("surviving::halved_until_small", mutates_args=())
def halved_as_operator(x: Tensor) -> Tensor:
    return halved_until_small(x.clone())


halved_as_operator.register_fake(torch.empty_like)


def noise(x: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return x * torch.rand(x.shape, generator=generator, dtype=x.dtype)


def with_print(x: Tensor) -> Tensor:
    print(x.shape)
    return 2 * x


def with_cache(x: Tensor) -> Tensor:
    SEEN.append(x.shape)
    return 2 * x


# Each row's code in forward, and what the page recommends instead.
CODE: Mapping[str, Callable[[Tensor], Tensor]] = {
    "a number taken out of a tensor": lambda x: x * x.sum().item(),
    "a list of numbers": lambda x: x * sum(x.tolist()),
    "a branch on values": lambda x: 2 * x if x.sum() > 0 else x,
    "a loop that ends at a tolerance": halved_until_small,
    "a generator or a seed": noise,
    "`print`": with_print,
    "a selection by values, used inside": lambda x: x * x[x > 0].sum(),
    "a selection by values, returned": lambda x: x[x > 0],
    "a conversion to NumPy": lambda x: torch.from_numpy(2 * x.numpy()),
    "a cache in a global variable": with_cache,
    "a counter on a Function": with_counter,
}
INSTEAD: Mapping[str, Callable[[Tensor], Tensor]] = {
    "keep the tensor": lambda x: x * x.sum(),
    "where for a selection": lambda x: x * torch.where(x > 0, x, 0).sum(),
    "torch.where": lambda x: torch.where(x.sum() > 0, 2 * x, x),
    "a custom operator": halved_as_operator,
    "a fixed number of steps": lambda x: x / 2**3,
    "rand_like": lambda x: x * torch.rand_like(x).mul(0).add(1),
    "a loop over shapes": lambda x: sum((x / 2 for _ in range(len(x))), torch.zeros_like(x)),
}


def compiled_with(code: Callable[[Tensor], Tensor], *, whole: bool) -> str:
    """Compile a Function whose forward runs some code, and say what happens.

    ``backward`` returns half of the mean of ``grad_output`` for each element, whatever the length
    of the output is.
    """

    class Runs(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return code(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return (grad_output.mean() / 2).expand(3)

    torch._dynamo.reset()
    call = torch.compile(lambda x: Runs.apply(x), backend="aot_eager", fullgraph=whole)
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    try:
        with quiet():
            y = call(x)
    except Exception as error:
        return f"raises `{type(error).__name__}`"
    (slope,) = torch.autograd.grad(y.sum(), x)
    right = torch.allclose(y, Runs.apply(x)) and torch.equal(slope, torch.full_like(x, 0.5))
    return "works" if right else "is wrong"
