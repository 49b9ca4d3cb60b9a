"""Benchmarks of speed and of findings. Each one compares our code with a baseline in one run.

``python -m benchmarks.NAME`` runs one benchmark, and ``python -m benchmarks`` runs all. ``--quick``
runs a small part of each to check that it works. Do not quote figures from a quick run.
"""
