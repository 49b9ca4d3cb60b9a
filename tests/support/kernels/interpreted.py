"""Compare interpreted kernels with tiled attention. The interpreter cannot multiply bfloat16."""

import itertools

import torch
from attentions import grouped, qkv
from torch import Tensor

from autograd_course.functions.attention import TiledAttention
from autograd_course.functions.attention.triton_attention import TritonAttention

SHAPES = (qkv(40, 70, 5, 20), qkv(70, 40, 16, 3, ()), grouped(70, 40))


def compare(inputs: list[Tensor], dtype: torch.dtype, causal: bool, dropout_p: float) -> None:
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    out = TritonAttention.apply(*leaves, causal, None, dropout_p, 3)
    expected = TiledAttention.apply(*leaves, None, causal, None, dropout_p, 3)
    arrives = [torch.cos(torch.arange(x.numel())).view_as(x).to(x.dtype) for x in expected]
    found = *out, *torch.autograd.grad(out, leaves, arrives)
    truth = *expected, *torch.autograd.grad(expected, leaves, arrives)
    for one, other in zip(found, truth, strict=True):
        unit = torch.finfo(dtype).eps * other.abs().max()
        torch.testing.assert_close(one, other, rtol=0, atol=20 * float(unit))


calls = list(itertools.product(SHAPES, (torch.float32, torch.float16), (False, True), (0.0, 0.3)))
for call in calls:
    compare(*call)

leaves = [x.detach().float().requires_grad_() for x in grouped(6, 5, 4, 2)]
seconds = []
for fn, rest in ((TritonAttention, ()), (TiledAttention, (None,))):
    loss = fn.apply(*leaves, *rest, True, None, 0.3, 3)[0].square().sum()
    grads = torch.autograd.grad(loss, leaves, create_graph=True)
    seconds.append(torch.autograd.grad(sum(x.square().sum() for x in grads), leaves))
torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-4)
print(f"{len(calls)} calls agree")
