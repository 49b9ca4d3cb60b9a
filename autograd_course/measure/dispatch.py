"""The base of all modes that look on as operations run."""

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):
    """A mode for eager code, whose subclass is made in no time.

    PyTorch wraps a mode's ``__torch_dispatch__`` so that torch.compile keeps out of it, and imports
    ``torch._dynamo`` at the first call to do so: two seconds before a widget's first picture.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
