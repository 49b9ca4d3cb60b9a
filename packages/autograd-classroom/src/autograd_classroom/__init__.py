"""Grade a class. Untrusted submissions run in a sandbox, and the judge runs outside the sandbox."""

__version__ = "0.1.0"
