"""Grade a folder of submissions and store the verdicts in a gradebook.

``choosing`` selects the exercises. ``run`` passes the pending answers to an executor, which is a
``pool`` of ``worker`` processes on this machine or a ``cluster`` of machines. Each worker has a
``sandboxed_judge`` and receives one ``task`` at a time. Executors do not depend on the judge, and
they do not import large packages.
"""
