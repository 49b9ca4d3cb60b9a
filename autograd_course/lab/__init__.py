"""The course's own launcher for JupyterLab."""
