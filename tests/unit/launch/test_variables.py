from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.launch.variables import parse_lines, read_variables


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text("# comment\n\nexport NCCL_DEBUG=INFO\nA='b c'\nB=\"x=y\"\nC=$HOME\n")
    found = read_variables(("A=new", "D="), file)
    assert found == {"NCCL_DEBUG": "INFO", "A": "new", "B": "x=y", "C": "$HOME", "D": ""}


@pytest.mark.parametrize("value", ["$(rm -rf x)", "line\nline", "'\"\\", "="])
def test_values_are_data(value: str) -> None:
    assert read_variables((f"A={value}",), None) == {"A": value}


@pytest.mark.parametrize("word", ["A", "=b", "A-B=c", "A\n=c"])
def test_what_is_no_variable_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_variables((word,), None)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("A=INFO # it's why", {"A": "INFO"}),
        ("A='two words'  # why", {"A": "two words"}),
        (r"A=back\ slash", {"A": "back slash"}),
        ("A=a'b'c", {"A": "abc"}),
        ("A=b#c", {"A": "b#c"}),
        ("A='# no comment'", {"A": "# no comment"}),
        ("  export A=1 B=2\r", {"A": "1", "B": "2"}),
        ("A=", {"A": ""}),
        ("# A=1", {}),
    ],
)
def test_a_line_is_read_as_a_shell_does(line: str, found: dict[str, str]) -> None:
    assert parse_lines(line, "x.env") == found
    names = " ".join(f'"${name}"' for name in found)
    told = subprocess.run(
        ["sh", "-c", f"{line.rstrip()}\nprintf '%s\\n' {names}"], capture_output=True, text=True, check=True
    )
    assert told.stdout.split("\n")[: len(found)] == list(found.values())


@pytest.mark.parametrize("line", ["A=two words", "A='open", 'A="open', "A=ends\\", "A = b"])
def test_what_a_shell_would_not_take_as_one_value_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"x\.env, line 2: ") as refused:
        parse_lines(f"A=1\n{line}\n", "x.env")
    assert refused.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read --env-file"):
        read_variables((), tmp_path / "none.env")
