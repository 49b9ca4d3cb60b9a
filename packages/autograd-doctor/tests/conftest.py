"""The environment of all tests, in this process and in the processes that tests start."""

import os

# Threads cost more than they save here, because the tensors are small and other tests use the
# cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
