"""The classroom: runs many untrusted submissions in isolation, and judges them from outside."""

__version__ = "0.1.0"
