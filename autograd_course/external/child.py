"""Build and load C++ in a separate process, so that a crash does not end the notebook's kernel.

The process receives the arguments of ``torch.utils.cpp_extension.load`` as JSON. If an operator's
schema contains a mistake, loading the library raises a C++ exception, which Python cannot catch.
"""

import json
import sys

if __name__ == "__main__":
    from torch.utils.cpp_extension import load

    try:
        load(**json.loads(sys.argv[1]), is_python_module=False)
    except (RuntimeError, OSError) as error:
        sys.exit(f"{error}\n{error.__cause__ or ''}")
