"""The exercises of the course. Each module defines one exercise completely.

The file name is the exercise id, and the folder is the lesson: ``lesson_01_template/square.py``
defines the exercise ``square`` of lesson ``01_template``. (The prefix ``lesson_`` makes the folder
importable.) The first line of the docstring is the title. Below the title are three hints, from a
first nudge to almost the whole answer. The code contains the reference, the checks that only this
exercise needs, and the object ``EXERCISE``. A file whose name begins with an underscore contains
code that several exercises of its lesson share.

``grader.catalogue.find`` imports only the module of the requested exercise. ``index.json`` lists
all exercises. ``make notebooks`` builds it from these modules.
"""
