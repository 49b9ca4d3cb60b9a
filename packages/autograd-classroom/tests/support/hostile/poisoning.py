"""Submissions that change PyTorch's state. Right answers stay right, and wrong ones stay wrong."""

from submissions import square

from hostile.making import FORBIDDEN, Hostile, half

_POISONS = {
    "the random state": "import random\ntorch.manual_seed(0)\nrandom.seed(0)",
    "grad mode": "torch.set_grad_enabled(False)",
    "inference mode": "KEPT = torch.inference_mode()\nKEPT.__enter__()",
    "deterministic flags": "torch.use_deterministic_algorithms(True)",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
    "hooks on saved tensors": (
        "HOOKS = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)\n"
        "HOOKS.__enter__()"
    ),
    "little recursion": "import sys\nsys.setrecursionlimit(200)",
    "the default dtype": "torch.set_default_dtype(torch.float16)",
    "the default device": "torch.set_default_device('meta')",
}
_ALL = "\n".join(_POISONS.values())
_SECONDS = 5.0  # deterministic algorithms make PyTorch import its compiler, which takes a second
_MODE = """
from torch.utils._python_dispatch import TorchDispatchMode
class Twice(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **kwargs or {})
        return out * 2 if 'mul' in str(op) and args[0].shape == args[1].shape else out
KEPT = Twice()
KEPT.__enter__()
"""

POISONING = {
    "all of it": Hostile(square(before=_ALL), FORBIDDEN, "the default device", seconds=_SECONDS),
    "all of it, and wrong": Hostile(
        half(_ALL), "gradient of `x`", "the default device", seconds=_SECONDS
    ),
    "anomaly detection": Hostile(
        square(before="torch.autograd.set_detect_anomaly(True)"), status="passed"
    ),
    "a trace function": Hostile(
        half("import sys\nsys.settrace(lambda *a: None)"), "gradient of `x`", "uses settrace"
    ),
    "a dispatch mode": Hostile(half(_MODE), "is wrong", "imports torch.utils._python_dispatch"),
}
