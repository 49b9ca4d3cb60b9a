"""Grade a folder of submissions and store the results in a gradebook. Workers find the verdicts.

``choosing`` selects the exercises, and ``run`` passes the pending answers to an executor: a
``pool`` of ``worker`` processes here, or a ``cluster`` of machines. Each worker has a
``sandboxed_judge`` and gets one ``task`` at a time. Executors know nothing about the judge, and
they import nothing heavy.
"""
