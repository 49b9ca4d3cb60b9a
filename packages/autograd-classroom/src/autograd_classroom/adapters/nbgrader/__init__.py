"""An nbgrader course folder, and a preprocessor that grades submissions in our sandbox."""
