"""Is there a test that notices? Code with one small change each, and the tests run on it.

The changes are mutmut's operators. What runs them is a plugin of pytest (``trial.py``), not mutmut
itself, which calls every function through another one that chooses the mutant: the doctor, which
looks at the signatures and sources of Functions, would examine that one. Here a process is forked
from one that has imported everything and run all tests once, the changed code is put into the
function that is there, and only tests run that come by it.
"""
