"""A pip for the setup cell. It takes the course from this checkout instead of from GitHub.

Each call writes its arguments to a file, as one line. The wheels are built in the same way as pip
builds them on Colab.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[5]
BOTH = (str(CHECKOUT / "packages" / "autograd-doctor"), str(CHECKOUT))
OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--quiet")

with open(os.environ["COLAB_ASKED"], "a", encoding="utf-8") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\n")
site = ("--target", os.environ["COLAB_SITE"])
install = [sys.executable, "-m", "pip", "install", *OFFLINE, *site, *BOTH]
environment = {**os.environ, "PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
sys.exit(subprocess.run(install, env=environment).returncode)
