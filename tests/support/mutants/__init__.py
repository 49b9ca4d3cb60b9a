"""Make one small change to the code at a time, and run the tests to see whether any test fails.

The changes come from mutmut's operators. A pytest plugin (``trial.py``) runs the tests, not mutmut
itself. mutmut calls every function through a wrapper that chooses the mutant. The doctor looks at
the signatures and sources of Functions, so it would examine the wrapper. Instead, the plugin forks
a process that has imported everything and run all tests once. It puts the changed code into the
existing function, and runs only the tests that reach this function.
"""
