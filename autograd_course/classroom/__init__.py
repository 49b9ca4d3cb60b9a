"""The classroom: run many untrusted submissions in isolation, and judge them from outside."""
