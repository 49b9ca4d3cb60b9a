"""Experiments with a learner's routine: ``routine -> Verdict | None``."""
