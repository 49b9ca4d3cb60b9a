"""C++ that is built on first use. It is cached, and errors point to the author's line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from builds import NEEDS_COMPILER

from autograd_course.external import SOURCES, BuildError, build, building, compiler_missing
from autograd_course.external.building import explained
from autograd_course.external.stored import benchmark_results

pytestmark = pytest.mark.slow

SOURCE = SOURCES / "decayed_sum.cpp"


@NEEDS_COMPILER
def test_an_operator_says_what_the_loop_says() -> None:
    x = torch.randn(2, 3, 5).transpose(0, 1)
    for reverse in (False, True):
        y = build(SOURCE).decayed_sum(x, 0.5, reverse)
        steps = range(5)[::-1] if reverse else range(5)
        total = torch.zeros(3, 2)
        for t in steps:
            total = x[..., t] + 0.5 * total
            torch.testing.assert_close(y[..., t], total)


@NEEDS_COMPILER
def test_what_was_built_is_built_once_even_for_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = build(SOURCE)
    monkeypatch.setattr(building, "_compile", lambda *_: pytest.fail("it is compiled again"))
    assert build(SOURCE) is first

    monkeypatch.setattr(building, "_loaded", set())
    assert build(SOURCE) is first


@pytest.mark.thorough
@NEEDS_COMPILER
def test_a_mistake_is_put_on_its_line_and_the_next_attempt_is_built_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(building.VARIABLE, str(tmp_path))
    wrong = SOURCE.read_text(encoding="utf-8").replace("sum = x[t]", "sun = x[t]")
    with pytest.raises(BuildError) as raised:
        build(wrong)

    assert raised.value.line == 1 + wrong[: wrong.index("sun = ")].count("\n")
    assert "sun" in raised.value.message
    assert "y[t] = sun = x[t]" in str(raised.value)


@pytest.mark.thorough
@NEEDS_COMPILER
def test_a_misspelled_schema_ends_the_building_process_and_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(building.VARIABLE, str(tmp_path))
    text = SOURCE.read_text(encoding="utf-8").replace("Tensor x, float a", "Tensor x float a")
    with pytest.raises(BuildError, match="look at the schemas in"):
        build(text)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("CXX", "no-such-compiler -O2", "no C.. compiler here .'no-such-compiler' is not found"),
        ("PATH", "", "no (C.. compiler|ninja)"),
    ],
)
def test_without_tools_a_sentence_says_what_to_install(
    variable: str, value: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(building.VARIABLE, str(tmp_path))
    monkeypatch.setenv(variable, value)

    assert compiler_missing() is not None
    with pytest.raises(BuildError, match=sentence):
        build("// never compiled")


LOGS = {
    "gcc": ("{file}:2:5: error: 'q' was not declared in this scope", 2, "'q' was not declared"),
    "fatal": ("{file}:1:10: fatal error: nothing.h: No such file or directory", 1, "nothing.h"),
    "msvc": ("{file}(2): error C2065: 'q': undeclared identifier", 2, "undeclared identifier"),
    "nvcc": ('{file}(2): error: identifier "q" is undefined', 2, "is undefined"),
    "header": (
        "/torch/x.h: In instantiation of 'f()':\n{file}:2:3:   required from here\n"
        "/torch/x.h:9:1: error: no match for 'operator+'",
        2,
        "no match",
    ),
    "a header's own error": (
        "In file included from /torch/y.h:3,\n                 from {file}:1:\n"
        "/torch/x.h:9:2: error: #error 'no such machine'\n{file}:2:5: error: 'q' was not declared",
        1,
        "line 1: #error 'no such machine'\n    #include <nothing.h>",
    ),
    "clang's header": (
        "In file included from {file}:1:\n/torch/x.h:9:1: error: invalid operands\n"
        "{file}:2:3: note: in instantiation of function template 'f' requested here",
        2,
        "invalid operands",
    ),
    "a header that nothing leads to": ("/torch/x.h(9): error: no match", None, "compile: no match"),
    "a header that is not stable": (
        'In file included from {file}:1:\n/torch/extension.h:13:2: error: #error "This file should '
        'not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."\n'
        "{file}:2:5: error: 'at' does not name a type",
        1,
        "Include the headers under torch/csrc/stable, as the lesson's source does, in place of",
    ),
    "linker": ("/usr/bin/ld: a.o: undefined reference to `other(int)'", None, "other(int"),
    "a full stop": ("Command 'ninja' returned exit status 1.", None, "returned exit status 1"),
    "silent": ("", None, "the compiler said nothing"),
}


@pytest.mark.parametrize(("log", "line", "what"), LOGS.values(), ids=LOGS)
def test_a_compilers_log_becomes_one_sentence(
    log: str, line: int | None, what: str, tmp_path: Path
) -> None:
    file = tmp_path / "source.cpp"
    file.write_text("#include <nothing.h>\nint p = q;\n", encoding="utf-8")
    error = explained(log.format(file=file), [file])

    assert error.line == line
    assert what in str(error)
    assert not str(error).endswith(".")  # the grader ends the sentence


@pytest.mark.thorough
def test_importing_the_package_does_not_load_the_extension_machinery() -> None:
    code = "import sys, autograd_course.external; print('setuptools' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "False"


def test_stored_figures_are_shown_with_their_device_and_what_does_not_fit_is_passed_over(
    tmp_path: Path,
) -> None:
    assert benchmark_results("decayed_sum", (tmp_path,)) == "No figures are stored for decayed_sum."
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text('{"name": "decayed_sum", "rows": 3}', encoding="utf-8")
    (tmp_path / "right.json").write_text(
        '{"name": "decayed_sum", "device": "GPU 7", "torch": "2.13", '
        '"rows": [{"what": "Triton", "milliseconds": 0.5}]}',
        encoding="utf-8",
    )

    shown = benchmark_results("decayed_sum", (tmp_path,))
    assert shown.splitlines()[0] == "measured on GPU 7, torch 2.13"
    assert shown.splitlines()[1].split() == ["Triton", "0.500", "ms"]
