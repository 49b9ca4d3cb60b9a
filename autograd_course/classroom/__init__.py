"""The classroom: runs many untrusted submissions in isolation, and judges them from outside."""
