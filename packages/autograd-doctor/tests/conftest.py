"""The environment of every test, in this process and in those that tests start."""

import os

# Threads cost more than they save here: the tensors are small, and others may use the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
