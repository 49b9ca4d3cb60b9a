"""From a folder of submissions to a finished gradebook; verdicts are made by workers.

``choosing`` says which exercises, ``handing_in`` fills the gradebook, ``run`` has a crew do what is
pending: a ``pool`` of processes here, each a ``worker``, or a ``cluster`` of machines. Each worker
has a ``bench`` and gets a ``task`` at a time. Crews know nothing about the bench, and import
nothing heavy.
"""
