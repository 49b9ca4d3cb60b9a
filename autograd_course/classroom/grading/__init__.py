"""Grade a folder of submissions and store the results in a gradebook. Workers find the verdicts.

``choosing`` selects the exercises, ``handing_in`` fills the gradebook, and ``run`` passes the
pending answers to a crew: a ``pool`` of ``worker`` processes here, or a ``cluster`` of machines.
Each worker has a ``bench`` and gets one ``task`` at a time. Crews know nothing about the bench, and
they import nothing heavy.
"""
