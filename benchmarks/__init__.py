"""How long things take and what they find, next to a peer in the same run: ratios, not times.

``python -m benchmarks.NAME`` runs one; ``python -m benchmarks`` runs all. ``--quick`` runs a small
part of each, which shows that it works, but not the figures to quote.
"""
