"""The exercises of the course. Each module contains everything about one exercise.

The name of the file is the id, and the folder is the lesson: ``lesson_01_template/square.py`` is
``square`` of lesson ``01_template``, in a folder whose name Python can import. The docstring has
the title in its first line, and below it three hints, from a nudge to nearly the answer. The code
holds the reference, what only this exercise checks, and the declaration ``EXERCISE``. A file whose
name begins with an underscore holds what several exercises of its lesson share.

``grader.catalogue.find`` imports only the module of the exercise that you name. ``index.json``
lists all exercises. ``make notebooks`` builds it from these modules.
"""
