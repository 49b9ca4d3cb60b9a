"""The course's own way to start JupyterLab."""
