"""Experiments that test a learner's routine: ``routine -> Verdict | None``."""
