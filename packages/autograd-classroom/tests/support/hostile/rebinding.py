"""Submissions that make every comparison succeed. The real comparison is outside."""

from submissions import square

from hostile.making import Hostile, half

_MISMATCH = "gradient of `x`"  # the verdict on the wrong backward
_TRUE = "lambda *a, **k: True"
# A function that replaces the methods of a class, so that a ``with`` block has no effect.
_IDLE = """
def idle(self):
    self.__enter__ = lambda mode: mode
    self.__exit__ = lambda mode, *_: None
"""
# Gradients of zeros, and a comparison that succeeds until a tensor is freed.
_FOR_A_MOMENT = """
import weakref
class Zeros(Function):
    @staticmethod
    def forward(ctx, block, x, *ps):
        ctx.save_for_backward(x, *ps)
        return block(x)

    @staticmethod
    def backward(ctx, g):
        {in_backward}
        return None, *(0 * x if need else None
                       for x, need in zip(ctx.saved_tensors, ctx.needs_input_grad[1:]))

kept, compare = [], torch.allclose
def fake(self, ends):
    self.allclose = {fake}
    def undo(): self.allclose = compare
    weakref.finalize(ends, undo)
def checkpointed(block, x):
    y = Zeros.apply(block, x, *block.parameters())
    {in_call}
    return y
"""
# A net with real-valued weights, which seem to be ones as soon as the net runs.
_REAL_NET = """
def ones(self): self.abs = lambda x: torch.ones_like(x)
def train_binary_net(images, labels):
    net = torch.nn.Linear(64, 10)
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
    {net}
"""
_NETS = {
    "function": "def run(x):\n        ones(torch.Tensor)\n        return net(x)\n    return run",
    "module": "net.register_forward_hook(lambda *_: ones(torch.Tensor))\n    return net",
}
_SNAKE = """
class Snake(Function):
    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, 1 + torch.sin(2 * a * x))
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[1], None
"""
# Attention, in which a method of Tensor or a property is different during the operation.
_HIDDEN = """
def raise_it(*_): raise RuntimeError
def hidden(self, q, k, v, mask):
    self.{name} = {fake}
    try:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    finally:
        del self.{name}
def attend(q, k, v, mask=None):
    return hidden([torch.Tensor][0], q, k, v, mask)
"""
_ATTEND = """
def attend(q, k, v, mask=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
"""

REBINDING = {
    "torch.autograd.gradcheck": Hostile(
        half(f"torch.autograd.gradcheck = torch.autograd.gradgradcheck = {_TRUE}"),
        _MISMATCH, "replaces torch.autograd.gradcheck",
    ),
    "torch.allclose": Hostile(
        half(f"torch.allclose = torch.isclose = torch.equal = {_TRUE}"),
        _MISMATCH, "replaces torch.allclose",
    ),
    "torch.testing.assert_close": Hostile(
        half(f"torch.testing.assert_close = {_TRUE}"), _MISMATCH, "torch.testing.assert_close"
    ),
    "Tensor.__eq__": Hostile(
        half("for name in ('__eq__', '__le__', '__bool__', 'equal', 'allclose'):\n"
             f"    setattr(torch.Tensor, name, {_TRUE})"),
        _MISMATCH, "replaces torch.Tensor.__eq__",
    ),
    "builtins": Hostile(
        half("import builtins\nbuiltins.all = builtins.any = builtins.isinstance = "
             f"{_TRUE}\nbuiltins.abs = builtins.max = lambda *a, **k: 0"),
        _MISMATCH, "replaces builtins.isinstance",
    ),
    "torch.autograd.grad": Hostile(
        half("torch.autograd.grad = lambda out, x, g=None, **k: (2 * x[0] * g[0],)"),
        _MISMATCH, "replaces torch.autograd.grad",
    ),
    "while forward runs": Hostile(
        half("", f"torch.allclose = torch.equal = {_TRUE}\nctx.save_for_backward(x)\nreturn x * x"),
        _MISMATCH, "replaces torch.allclose while it runs",
    ),
    "the code of a function": Hostile(
        half("import autograd_doctor._numerics.tensors as c\n"
             "c.same_bytes.__code__ = (lambda one, other: True).__code__"),
        _MISMATCH, "the code of same_bytes",
    ),
    "apply of the answer": Hostile(
        square(backward="return g") + "\ndef put(self): self.apply = lambda x: x * x\nput(Square)",
        "gradient", "Square.apply",
    ),
    "Function.apply": Hostile(
        square(before="Function.apply = classmethod(lambda cls, x: x * x)", backward="return g"),
        "gradient", "Function.apply",
    ),
    "a mode that records operations": Hostile(
        f"import torch.utils.checkpoint\n{_IDLE}"
        f"idle(torch.utils.checkpoint.TorchDispatchMode)\n{_ATTEND}",
        "scaled_dot_product_attention does the work", "TorchDispatchMode.__enter__",
        exercise="attention-forward", name="attend",
    ),
    "hooks that measure the saved memory": Hostile(
        f"{_IDLE}idle(torch.autograd.graph.saved_tensors_hooks)\n{_SNAKE}",
        "bytes are saved", "saved_tensors_hooks.__enter__", exercise="snake", name="Snake",
    ),
    "torch.allclose until the end of a trial": Hostile(
        _FOR_A_MOMENT.format(in_backward="", in_call="fake(torch, y)", fake=_TRUE),
        "the gradients? of", "replaces torch.allclose",
        exercise="checkpointed-block", name="checkpointed",
    ),
    "torch.allclose in a trial's backward": Hostile(
        _FOR_A_MOMENT.format(in_backward="fake(torch, kept.pop())", in_call="kept.append(block)",
                             fake=_TRUE),
        "the gradients? of", "replaces torch.allclose",
        exercise="checkpointed-block", name="checkpointed",
    ),
    **{
        f"a method of Tensor in the {kind} that the answer returns": Hostile(
            _REAL_NET.format(net=net), "different values", "replaces torch.Tensor.abs",
            exercise="binary-digits", name="train_binary_net", wall=30.0,
        )
        for kind, net in _NETS.items()
    },
    **{
        f"{name} of Tensor during an operation": Hostile(
            _HIDDEN.format(name=name, fake=fake), "scaled_dot_product_attention does the work",
            exercise="attention-forward", name="attend",
        )
        for name, fake in (("untyped_storage", "raise_it"), ("layout", "torch.sparse_coo"))
    },
    "what a mode calls": Hostile(
        half("torch.utils._python_dispatch._push_mode = lambda mode: None"),
        _MISMATCH, "replaces torch.utils._python_dispatch._push_mode",
    ),
    "a method that a class inherits": Hostile(
        half(f"from autograd_doctor.extension import OperationRecorder\n{_IDLE}"
             "idle(OperationRecorder)"),
        _MISMATCH, "OperationRecorder.__enter__",
    ),
    "a method of Python that a class lacks": Hostile(
        half("from autograd_doctor.extension import OperationRecorder\n"
             "OperationRecorder.__bool__ = lambda mode: False"),
        _MISMATCH, "OperationRecorder.__bool__",
    ),
    "the base of a class": Hostile(
        half("from autograd_doctor.memory import DispatchMode\nclass Idle:\n"
             "    def __enter__(self): return self\n    def __exit__(self, *_): pass\n"
             "DispatchMode.__bases__ = (Idle,)"),
        _MISMATCH, "DispatchMode.__bases__",
    ),
    "the class of a module": Hostile(
        half("class Kind(type(torch)):\n"
             f"    allclose = property(lambda module: {_TRUE})\ntorch.__class__ = Kind"),
        _MISMATCH, "replaces torch.__class__",
    ),
    "a property": Hostile(
        half("torch.UntypedStorage.is_cuda = property(lambda storage: False)"),
        _MISMATCH, "UntypedStorage.is_cuda",
    ),
    "the code of a property": Hostile(
        half("from autograd_doctor.extension import OperationRecorder\n"
             "OperationRecorder.names.fget.__code__ = (lambda self: ()).__code__"),
        _MISMATCH, "the code of OperationRecorder.names",
    ),
}  # fmt: skip
