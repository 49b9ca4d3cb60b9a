"""Start JupyterLab with the settings that the course needs."""
