"""Submissions in all the forms in which people and course sites provide them."""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from autograd_classroom.gradebook import Gradebook
from autograd_classroom.ingest import (
    Rejected,
    Submission,
    collect,
    collecting,
    files,
    hand_in,
)
from autograd_classroom.ingest.collecting import NOTHING, NoSubmissionsError
from autograd_classroom.ingest.files import MEGABYTE, Left, Limits, found
from handed_in import IMPORTS, SQUARE, STUB, cell, notebook, solution
from repository import ROOT

from autograd_course.grader.catalogue import CATALOGUE

pytestmark = pytest.mark.slow

NOTEBOOK = notebook(cell(IMPORTS), cell(SQUARE, "square"))
STUBS = notebook(cell(IMPORTS), cell(STUB, "square"))
SCRIPT = f"# %%\n{IMPORTS}\n# %%\n{SQUARE}".encode()


def laid_out(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def graded(root: Path) -> list[tuple[str, str, str]]:
    submissions = [each for each in collect(root) if isinstance(each, Submission)]
    return [(each.student, each.lesson, each.source) for each in submissions]


def rejected(root: Path) -> dict[str, str]:
    return {each.source: each.problem for each in collect(root) if isinstance(each, Rejected)}


# a file under the submissions folder → the student
WHOSE = {
    "ann/01_template.ipynb": "ann",
    "ann/deeply/nested/work.ipynb": "ann",
    "ann/01_template/01_template.ipynb": "ann",
    "submitted/ann/01_template/01_template.ipynb": "ann",
    "01_template/ann.ipynb": "ann",
    "01_template/ann/work.ipynb": "ann",
    "01-template-ann/exercises/01_template.ipynb": "ann",
    "01-template-ann-2/01_template.ipynb": "ann-2",
    "01-template-ann-05/01_template.ipynb": "ann-05",
    "01-template-ann-hw01/01_template.ipynb": "ann-hw01",
    "01-template-ann-/01_template.ipynb": "ann-",
    "ann_01_template/01_template.ipynb": "ann",
    "hw01-ann/01_template.ipynb": "ann",
    "01-template/01_template.ipynb": "01-template",
    "01/01_template.ipynb": "01",
    "group-01/01_template.ipynb": "group-01",
    "ann.lee/01_template.ipynb": "ann.lee",
    "ann@uni.example/01_template.ipynb": "ann@uni.example",
    "team_2026_a/01_template.ipynb": "team_2026_a",
    "ann (1)/01_template.ipynb": "ann (1)",
    "work-1.ipynb": "work",
    "work (2).ipynb": "work",
    "ann.ipynb": "ann",
    "ann_01_template.ipynb": "ann",
    "01_template_ann.ipynb": "ann",
    "01_template-ann (1).ipynb": "ann",
    "ann-01.ipynb": "ann",
    "ann_123_01_template.ipynb": "ann_123",
    "ann_LATE_4711_98765_01_template-1.ipynb": "ann_4711",
    "Ann B_123_assignsubmission_file_/01_template.ipynb": "Ann B_123",
    "hw1_ann_attempt_2026-01-31-23-59-59_01_template.ipynb": "ann",
    "assignment_7_export/submission_9/01_template.ipynb": "submission_9",
    "A\u0308nn/01_template.ipynb": "\u00c4nn",
    "\u6797\u5c0f\u660e/01_template.ipynb": "\u6797\u5c0f\u660e",
    "01_template.ipynb": "root",
    "_ann/01_template.ipynb": "_ann",
    "ann-/01_template.ipynb": "ann-",
    ".ann/01_template.ipynb": ".ann",
    "_ann_01_template.ipynb": "ann",
    # The student's own file name looks like one from another site:
    "eve_123_8_ann_attempt_2026-01-31-23-59-59_01_template.ipynb": "eve_123",
    "anon_1a2b3_98765_x_bob_attempt_2026-01-31-23-59-59_hw.ipynb": "anon_1a2b3",
    "eve_12_8_ann_4711_01_template.ipynb": "eve_12",
    "eve_123_8_Ann B_7_assignsubmission_file_work.ipynb": "eve_123",
    "Eve_5_assignsubmission_file_hw_ann_attempt_2026-01-31-23-59-59_work.ipynb": "Eve_5",
    "hw_eve_attempt_2026-01-31-23-59-59_Ann B_7_assignsubmission_file_work.ipynb": "eve",
    "hw_eve_attempt_2026-01-31-23-59-59_x_ann_attempt_2026-01-31-23-59-59_x.ipynb": "eve",
    "Eve_5_assignsubmission_file/hw_ann_attempt_2026-01-31-23-59-59_work.ipynb": "Eve_5",
}


@pytest.mark.parametrize("path", WHOSE)
def test_a_file_has_its_student(path: str, tmp_path: Path) -> None:
    root = laid_out(tmp_path / "root", {path: NOTEBOOK})

    assert [(student, lesson) for student, lesson, _ in graded(root)] == [
        (WHOSE[path], "01_template")
    ]


def test_students_whose_names_differ_by_a_sign_alone_are_told_apart(tmp_path: Path) -> None:
    names = ["-ann", ".ann", "_ann", "ann", "ann-"]
    tools = [".git", ".ipynb_checkpoints"]
    root = laid_out(tmp_path, {f"{name}/01_template.ipynb": NOTEBOOK for name in names + tools})

    assert [student for student, _, _ in graded(root)] == names


# two folders → the student, if they belong together
FOLDERS = {
    ("01-template-ann", "hw01-ann"): "",
    ("01-template-ann", "02-ctx-rules-ann"): "ann",
    ("hw01-ann", "ann-02_ctx_rules"): "ann",
    ("ann", "01-template-ann"): "",
    ("A\u0308nn", "\u00c4nn"): "",
    ("assignment_7_export/submission_9", "assignment_7_export/submission_10"): "",
    ("Ann B_1_assignsubmission_file", "Ann B_1_assignsubmission_onlinetext"): "Ann B_1",
    ("hw_ann_attempt_2026-01-30_a", "hw_ann_attempt_2026-01-31_a"): "ann",
    ("ann_4711_98765_a", "ann_LATE_4711_98766_b"): "ann_4711",
    ("01_template/ann", "02_ctx_rules/ann"): "ann",
    ("01_template/01-template-ann", "02_ctx_rules/02-ctx-rules-ann"): "ann",
}


@pytest.mark.parametrize("pair", FOLDERS)
def test_no_folder_replaces_another_person_s(pair: tuple[str, str], tmp_path: Path) -> None:
    same = "submission_9:\n  :submitters:\n  - :name: Ann\n    :sid: 1\n"
    files = {f"{folder}/{i}.ipynb": NOTEBOOK for i, folder in enumerate((*pair, "bob"))}
    root = laid_out(tmp_path, files)
    if "export" in pair[0]:
        metadata = same + same.replace("_9", "_10")
        (root / pair[0]).with_name("submission_metadata.yml").write_text(metadata)
    student = FOLDERS[pair]

    assert {each for each, *_ in graded(root)} == {"bob", *filter(None, [student])}
    assert student or rejected(root) == {
        folder: f"the folder {Path(other).name} next to it gives the same student: rename one, or "
        "merge the two"
        for folder, other in (pair, pair[::-1])
    }


def test_zips_are_read_where_they_are_and_never_unpacked(tmp_path: Path) -> None:
    inner = zipped({"work/01_template.ipynb": NOTEBOOK, "__MACOSX/work/._x.ipynb": b"\x00"})
    root = laid_out(tmp_path, {"ann.zip": inner, "bob.zip": zipped({"again.zip": inner})})

    assert graded(root) == [
        ("ann", "01_template", "ann.zip/work/01_template.ipynb"),
        ("bob", "01_template", "bob.zip/again.zip/work/01_template.ipynb"),
    ]
    assert sorted(os.listdir(root)) == ["ann.zip", "bob.zip"]


# Whole classes


GRADESCOPE = """\
---
submission_9:
  :submitters:
  - :name: Ann B
    :sid: '123'
    :email: ann@uni.example
  :created_at: 2026-10-01 12:00:00.000000000 Z
  :results:
    tests:
    - name: not Ann
  :history:
  - :name: not Ann either
submission_10:
  :submitters:
  - :name: "J\\u00f3n O'Brien"
    :sid: 124
  - :name: 'Cem "C" D''Arc'
    :sid:
submission_11:
  :submitters: []
"""


def test_in_gradescope_s_export_people_have_their_names(tmp_path: Path) -> None:
    numbers = ("submission_9", "submission_10", "submission_11")
    export = laid_out(
        tmp_path / "assignment_7_export",
        {f"{number}/01_template.ipynb": NOTEBOOK for number in numbers}
        | {"submission_metadata.yml": GRADESCOPE.encode()},
    )
    people = ["Ann B_123", "J\u00f3n O'Brien_124 and Cem \"C\" D'Arc_10", "submission_11"]

    for root in (tmp_path, export):
        assert [student for student, *_ in graded(root)] == people
    (export / "submission_metadata.yml").write_bytes(b"\xff: [")
    assert [student for student, *_ in graded(export)] == sorted(numbers)


def test_whose_a_file_is_the_page_for_instructors_tells(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| Student \|\n\| ---.*?\n(.*?)\n\n", page, re.DOTALL)
    told = {
        path: whose.partition(":")[0]
        for _, paths, whose in (line.strip("| ").split(" | ") for line in table.splitlines())
        for path in re.findall(r"`(.+?)`", paths)
    }
    for number, path in enumerate(told):
        content = zipped({"work.ipynb": NOTEBOOK}) if path.endswith(".zip") else NOTEBOOK
        root = laid_out(tmp_path / str(number), {path: content})
        if "export" in path:
            metadata = root / Path(path).parts[0] / "submission_metadata.yml"
            metadata.write_text(GRADESCOPE, encoding="utf-8")
        assert [student for student, *_ in graded(root)] == [told[path]]


# The file names in the download of a course site
SITES = {
    "Moodle": ["Ann B_1_assignsubmission_file/a.ipynb", "Bob_2_assignsubmission_file/a.ipynb"],
    "Canvas": ["annb_4711_98765_a-1.ipynb", "bob_LATE_4712_98766_a.ipynb"],
    "Blackboard": [f"hw_{who}_attempt_2026-01-31-23-59-59_a.ipynb" for who in ("ann", "bob")],
    "Gradescope": [f"assignment_7_export/submission_{i}/a.ipynb" for i in (8, 9)],
}


@pytest.mark.parametrize("site", SITES)
def test_a_site_s_zip_of_a_class_is_no_student_s_and_once_unpacked_everybody_s(
    site: str, tmp_path: Path
) -> None:
    files = dict.fromkeys(SITES[site], NOTEBOOK)
    root = laid_out(tmp_path / "zipped", {"hw.zip": zipped(files), "zoe.ipynb": NOTEBOOK})
    class_ = "it holds the work of a class: unpack it, and grade the folder"

    assert rejected(root) == rejected(root / "hw.zip") == {"hw.zip": class_}
    assert [student for student, *_ in graded(root)] == ["zoe"]
    assert len(graded(laid_out(tmp_path / "unpacked", files))) == 2


ONE_S_OWN = {
    "one of Moodle's": [SITES["Moodle"][0]],
    "numbered files": ["data_2025.py", "data_2026.py", "model_100.ipynb", "model_200.ipynb"],
    "folders": ["ann/a.ipynb", "bob/b.ipynb"],
}


@pytest.mark.parametrize("what", ONE_S_OWN)
def test_a_zip_of_one_student_s_is_read(what: str, tmp_path: Path) -> None:
    root = laid_out(tmp_path, {"ann.zip": zipped(dict.fromkeys(ONE_S_OWN[what], NOTEBOOK))})

    assert [student for student, *_ in graded(root)] == ["ann"]


def link_in_zip() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        link = zipfile.ZipInfo("a.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return data.getvalue()


def lying_zip() -> bytes:
    """Return a zip whose directory falsely claims that its bomb has ten bytes."""
    bomb = zipped({"a.ipynb": b"0" * 50_000_000})
    return bomb.replace((50_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))


def of_entries(count: int, damage: bytes = b"") -> bytes:
    """Return a zip whose directory has so many entries, and ends with a damage."""
    directory = (b"PK\x01\x02" + bytes(42)) * count + damage
    return directory + struct.pack("<4s8xIIH", b"PK\x05\x06", len(directory), 0, 0)


# how a zip is made → words in the message about it
BAD_ZIPS = {
    "no zip": (lambda: b"PK\x03\x04 not really", "broken"),
    "cut off": (lambda: zipped({"a.ipynb": NOTEBOOK})[:-30], "broken"),
    "a path out of it": (lambda: zipped({"../../a.ipynb": NOTEBOOK}), "leads out"),
    "an absolute path": (lambda: zipped({"/etc/a.ipynb": NOTEBOOK}), "leads out"),
    "a drive": (lambda: zipped({"C:\\a.ipynb": NOTEBOOK}), "leads out"),
    "a link": (link_in_zip, "a link"),
    "a bomb": (lambda: zipped({"a.ipynb": b"0" * 50_000_000}), "more than"),
    "a bomb that lies": (lying_zip, "no notebook|unpacked|JSON|broken|Overlapped|exercise"),
    "zips in zips in zips": (
        lambda: zipped({"b.zip": zipped({"c.zip": zipped({"a.ipynb": NOTEBOOK})})}), "too deep"),
    "too many entries": (lambda: of_entries(20_001), "more than 20,000 entries"),
    "too many entries in its zips": (
        lambda: zipped({f"{i}.zip": of_entries(7_000) for i in range(3)}), "than 20,000 entries"),
    "a long directory": (lambda: of_entries(100_000), "too many entries: its directory exceeds"),
    "another compression": (
        lambda: zipped({"a.ipynb": bytes(100 * MEGABYTE)}, zipfile.ZIP_LZMA), "unusual method"),
    "an entry without a name": (lambda: of_entries(1), "no notebook"),
    "a folder with the name of a notebook": (lambda: zipped({"a.ipynb/": b""}), "no notebook"),
    "nothing of use": (lambda: zipped({"a.txt": b"hello"}), "no notebook"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_ZIPS)
def test_a_bad_zip_is_named_and_stops_nobody(what: str, tmp_path: Path) -> None:
    made, said = BAD_ZIPS[what]
    root = laid_out(tmp_path / "in", {"ann.zip": made(), "bob.ipynb": NOTEBOOK})
    (problem,) = rejected(root).values()

    assert re.search(said, problem)
    assert [student for student, *_ in graded(root)] == ["bob"]
    assert sorted(os.listdir(tmp_path)) == ["in"]


def test_the_zips_of_a_student_have_one_limit(tmp_path: Path) -> None:
    two = of_entries(15_000)
    root = laid_out(tmp_path, {"ann.zip": two, "ann (1).zip": two, "bob.zip": of_entries(15_000)})

    assert rejected(root) == {
        "ann.zip": "the folders and zip files have more than 20,000 entries in total",
        "bob.zip": NOTHING,
    }


def test_links_pipes_and_unreadable_files_are_named(tmp_path: Path) -> None:
    root = laid_out(tmp_path / "in", {"bob.ipynb": NOTEBOOK, "ann/ok.ipynb": NOTEBOOK})
    secret = laid_out(tmp_path, {"secret.ipynb": solution()}) / "secret.ipynb"
    (root / "ann/link.ipynb").symlink_to(secret)
    (root / "ann/folder").symlink_to(tmp_path)
    (root / "eve").symlink_to(tmp_path)
    os.mkfifo(root / "ann/pipe.ipynb")

    assert [student for student, *_ in graded(root)] == ["ann", "bob"]
    said = rejected(root)
    assert {name for name, problem in said.items() if "link" in problem} == {
        "ann/link.ipynb", "ann/folder", "eve",
    }  # fmt: skip
    assert "regular" in said["ann/pipe.ipynb"]


@pytest.mark.parametrize("keeps", ["an answer", "no answer"])
def test_what_a_damaged_notebook_may_have_lost_gets_no_points_instead_of_0(
    keeps: str, tmp_path: Path
) -> None:
    cells = [cell(IMPORTS), cell(SQUARE, "square")] if keeps == "an answer" else [cell(IMPORTS)]
    damaged = notebook(*cells, cell("x = 1"))[:-40]
    root = laid_out(tmp_path, {"ann/01_template.ipynb": damaged})
    wanted = [it for it in CATALOGUE.values() if it.lesson == "01_template"]

    with Gradebook(tmp_path / "book.sqlite") as book:
        book.begin(wanted, "")
        came = hand_in.hand_in(book, root, wanted)
        kept = [score.exercise for score in book.scores("ann")]
        said = [problem.message for problem in book.problems()]

    assert kept == (["square"] if keeps == "an answer" else [])
    assert (came.notebooks, came.rejected) == ((1, 0) if keeps == "an answer" else (0, 1))
    assert "JSON is broken" in said[0]


def test_too_much_is_named_and_not_read(tmp_path: Path) -> None:
    limits = Limits(files=3, entries=50, depth=2, file=1000, total=2000)
    many = laid_out(tmp_path / "many", {f"{i}.py": b"x" for i in range(10)})
    floods = laid_out(tmp_path / "floods", {f"{i}.txt": b"" for i in range(60)})
    large = laid_out(tmp_path / "large", {"a.py": b"x" * 1001})
    deep = laid_out(tmp_path / "deep", {"a/b/c/d/e.py": b"x"})
    empty = laid_out(tmp_path / "empty", {f"{i}.zip": of_entries(19) for i in range(3)})
    broken = laid_out(tmp_path / "broken", {f"{i}.zip": of_entries(18, b"x" * 46) for i in "abc"})
    useless = zipped({"useless.zip": zipped({"a.txt": os.urandom(600)})})
    nested = laid_out(tmp_path / "nested", {f"{i}.zip": useless for i in range(3)})

    def problems(path: Path) -> list[str]:
        return [each.problem for each in found(path, "ann", Left(limits)) if each.problem]

    assert problems(many) == ["there are too many files, or too large ones"]
    assert problems(floods) == ["the folders and zip files have more than 50 entries in total"]
    assert problems(empty) == ["the folders and zip files have more than 50 entries in total"]
    assert "the zip is broken" in problems(broken)[0]
    assert problems(broken)[2:] == problems(empty)
    assert problems(nested) == problems(many)
    assert "1,000 bytes" in problems(large)[0]
    assert problems(deep) == ["the folders are nested too deep"]


# several files of one student and lesson → the file that is graded
WHICH = {
    "the one with more answers": ({"a.ipynb": NOTEBOOK, "b.ipynb": STUBS}, "a.ipynb"),
    "the pair's notebook": ({"x.ipynb": NOTEBOOK, "x.py": SCRIPT}, "x.ipynb"),
    "the pair's script, if only that was edited": ({"x.ipynb": STUBS, "x.py": SCRIPT}, "x.py"),
    "not what the course brings": (
        {"exercises/a.ipynb": NOTEBOOK, "solutions/a.ipynb": solution()}, "exercises/a.ipynb"),
    "not a checkpoint": ({"a.ipynb": NOTEBOOK, ".ipynb_checkpoints/a.ipynb": NOTEBOOK}, "a.ipynb"),
}  # fmt: skip


@pytest.mark.parametrize("which", WHICH)
def test_one_notebook_a_lesson_is_graded_and_the_others_are_named(
    which: str, tmp_path: Path
) -> None:
    files, best = WHICH[which]
    root = laid_out(tmp_path, {f"ann/{name}": data for name, data in files.items()})

    assert graded(root) == [("ann", "01_template", f"ann/{best}")]
    others = {f"ann/{name}" for name in files if name != best and not name.startswith(".")}
    assert set(rejected(root)) == others


def test_of_equal_notebooks_the_later_is_graded(tmp_path: Path) -> None:
    root = laid_out(tmp_path, {"ann/a.ipynb": NOTEBOOK, "ann/b.ipynb": NOTEBOOK})
    os.utime(root / "ann/b.ipynb", (1, 1))

    assert graded(root) == [("ann", "01_template", "ann/a.ipynb")]


def test_a_notebook_is_known_by_what_it_holds_not_by_its_name(tmp_path: Path) -> None:
    root = laid_out(tmp_path, {"ann/02_ctx_rules.ipynb": solution("06_double_backward")})

    assert [lesson for _, lesson, _ in graded(root)] == ["06_double_backward"]


def test_a_whole_course_handed_in_is_told_apart_by_lesson(tmp_path: Path) -> None:
    files = {f"ann/{p.name}": p.read_bytes() for p in (ROOT / "solutions").glob("*.ipynb")}

    assert len(graded(laid_out(tmp_path, files))) == len(files)


# what happens to Ann's folder after grading → whether her notebook is gone
CHANGES = {
    "renamed": (lambda ann: ann.rename(ann.with_name("anna")), True),
    "deleted": (lambda ann: (ann / "a.ipynb").unlink(), True),
    "replaced": (lambda ann: (ann / "a.ipynb").write_bytes(solution("02_ctx_rules")), True),
    "moved": (lambda ann: (ann / "a.ipynb").rename(ann / "b.ipynb"), False),
    "damaged": (lambda ann: (ann / "a.ipynb").write_bytes(b"{"), False),
    "not changed": (lambda ann: None, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_students_whose_graded_notebooks_are_gone_are_named_and_keep_their_answers(
    change: str, tmp_path: Path
) -> None:
    happens, gone = CHANGES[change]
    root = laid_out(tmp_path / "in", {f"{name}/a.ipynb": NOTEBOOK for name in ("ann", "bob")})
    wanted = [CATALOGUE["square"]]
    with Gradebook(tmp_path / "book") as book:
        book.begin(CATALOGUE.values(), "")
        first = hand_in.hand_in(book, root, wanted)
        happens(root / "ann")
        second = hand_in.hand_in(book, root, wanted)
        of_another_lesson = hand_in.hand_in(book, root, [CATALOGUE["gelu"]]).gone
        alone = hand_in.hand_in(book, root / "bob" / "a.ipynb", wanted)
        kept = [score.exercise for score in book.scores("ann")]

    assert (first.gone, second.gone) == ((), ("ann",) if gone else ())
    assert (of_another_lesson, alone.gone) == ((), ())
    assert kept == ["square"]


def test_file_names_that_are_no_text_can_be_printed_and_stored(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xffnn\x1b[31m.ipynb")
    (tmp_path / name).write_bytes(NOTEBOOK)
    ((student, _, source),) = graded(tmp_path)

    assert student.isprintable()
    assert source.encode().decode().isprintable()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSubmissionsError, match="there is no folder"):
        list(collect(tmp_path / "none"))


def test_a_folder_that_is_closed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.scandir

    def closed(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(folder).name == "ann":
            raise PermissionError(13, "Permission denied")
        return opened(folder)  # Python 3.13's `iterdir` opens it

    (tmp_path / "ann").mkdir()
    monkeypatch.setattr(files.os, "scandir", closed)

    assert rejected(tmp_path) == {"ann": "this folder cannot be read"}


def fails(*_: object) -> NoReturn:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(("module", "name"), [(collecting, "lesson_of"), (hand_in, "extract")])
def test_a_fault_of_ours_is_named_and_counted(
    module: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = laid_out(tmp_path / "in", {"ann.ipynb": NOTEBOOK})
    monkeypatch.setattr(module, name, fails)
    with Gradebook(tmp_path / "book") as book:
        count = hand_in.hand_in(book, root, [CATALOGUE["square"]])
        (named,) = book.problems()

    assert (count.notebooks, count.rejected) == (0, 1)
    assert (named.student, named.source) == ("ann", "ann.ipynb")
    assert "the grader failed to read it: ZeroDivisionError('oops')" in str(named)


def test_an_empty_hand_in_is_named(tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()

    assert rejected(tmp_path) == {"ann": NOTHING}


# a file without answers in the submissions folder → its student, if a site named the file
OTHER_FILES = {
    "bert_403_2_w.ipynb.txt": "bert_403",
    "cleo_LATE_404_3_work.rar": "cleo_404",
    "emil_406_5_w.tar.gz": "emil_406",
    "hans_408_1_text.html": "hans_408",
    "Ann B_123_assignsubmission_file/essay.pdf": "Ann B_123",
    "Ann B_123_assignsubmission_file_essay.pdf": "Ann B_123",
    "hw_ann_attempt_2026-01-31-23-59-59_essay.pdf": "ann",
    "README.txt": "",
    ".DS_Store": "",
    "assignment.toml": "",
    "roster_2026_11_28_new.csv": "",
}


@pytest.mark.parametrize("path", OTHER_FILES)
def test_a_file_without_answers_is_named_if_a_student_handed_it_in(
    path: str, tmp_path: Path
) -> None:
    root = laid_out(tmp_path, {path: b"PK"})
    top = path.partition("/")[0]

    assert [(each.student, each.source) for each in collect(root)] == (
        [(OTHER_FILES[path], top)] if OTHER_FILES[path] else []
    )


def test_a_notebook_of_another_lesson_is_named_if_the_student_has_no_other(tmp_path: Path) -> None:
    root = laid_out(tmp_path / "in", {
        "ann/a.ipynb": NOTEBOOK, "ann/b.ipynb": solution("02_ctx_rules"),
        "bob/b.ipynb": solution("02_ctx_rules"),
        "cyd/a.ipynb": b"{", "cyd/b.ipynb": solution("02_ctx_rules"),
    })  # fmt: skip
    wanted = [CATALOGUE["square"]]
    with Gradebook(tmp_path / "book") as book:
        book.begin(wanted, "")
        count = hand_in.hand_in(book, root, wanted)
        said = {each.source: each.message for each in book.problems()}

    assert (count.notebooks, count.rejected) == (1, 1), "another lesson is not a rejected file"
    assert said.keys() == {"bob/b.ipynb", "cyd/a.ipynb", "cyd/b.ipynb"}
    assert said["bob/b.ipynb"] == "it belongs to lesson 02, which this assignment does not include"
