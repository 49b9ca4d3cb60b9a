"""Find the folder and the notebook that JupyterLab opens."""

from pathlib import Path

from autograd_course.errors import CourseError

FIRST_NOTEBOOK = Path("notebooks", "00_start_here.ipynb")
# The launcher writes this page, which lists the lessons and shows the learner's progress.
OVERVIEW = Path("your_course.md")
REPOSITORY = Path(__file__).parents[2]
# The package does not contain the notebooks or the exercises. This command downloads them.
GET = "git clone https://github.com/autograd-course/autograd_course"


class LabError(CourseError):
    """Raised if JupyterLab cannot start. The message is one sentence for the learner."""


def course_folder(start: Path, repository: Path = REPOSITORY) -> Path:
    """Return the first course folder among ``start``, its parents and ``repository``.

    A course folder contains ``notebooks/00_start_here.ipynb``. ``repository`` is the folder of an
    editable install. Raises :class:`LabError` if none of these is a course folder.
    """
    start = start.resolve()
    for folder in (start, *start.parents, repository):
        if (folder / FIRST_NOTEBOOK).is_file():
            return folder
    raise LabError(
        f"There is no course in {start} or in a folder above it: change into your copy of the "
        f"course, or get one with {GET}"
    )


def notebook_in(folder: Path, notebook: Path) -> Path:
    """Return the path of ``notebook`` relative to the course folder ``folder``.

    ``notebook`` can be relative to the current directory or to ``folder``. Raises :class:`LabError`
    if the file does not exist or is outside the course folder.
    """
    found = next((path for path in (notebook, folder / notebook) if path.is_file()), None)
    if found is None:
        raise LabError(f"There is no notebook {notebook}, neither here nor in {folder}.")
    if not found.resolve().is_relative_to(folder):
        raise LabError(f"{notebook} lies outside {folder}: copy it into the course first.")
    return found.resolve().relative_to(folder)
