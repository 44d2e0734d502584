from __future__ import annotations

import io
import sys

import pytest

from busbw.containers.steps import Step, failed, run_steps, shell
from busbw.errors import SiteError

PYTHON = sys.executable


def python(text: str) -> tuple[str, ...]:
    return PYTHON, "-c", text


def test_a_password_is_read_and_never_shown() -> None:
    errors = io.StringIO()
    step = Step(python("import sys; print(len(sys.stdin.read()))"), source=python("print('sec' + 'ret')"))
    run_steps((step,), errors)
    assert errors.getvalue().endswith("\n7\n")
    assert "secret" not in errors.getvalue()


def test_what_is_there_is_not_made_again() -> None:
    errors = io.StringIO()
    run_steps((Step(python("print('made')"), unless=python("pass"), absent="NotFound"),), errors)
    assert errors.getvalue() == ""
    asked = python("import sys; sys.exit('An error occurred (NotFound)')")
    run_steps((Step(python("print('made')"), unless=asked, absent="NotFound"),), errors)
    assert errors.getvalue().endswith("\nmade\n")
    denied = python("import sys; sys.exit('An error occurred (AccessDenied)')")
    with pytest.raises(SiteError, match="AccessDenied"):
        run_steps((Step(python("print('made')"), unless=denied, absent="NotFound"),), errors)


def test_the_first_failure_ends_it_in_the_tools_own_words() -> None:
    errors = io.StringIO()
    bad = Step(
        python("import sys; print('Error: no space left on device'); print('exit status 1'); sys.exit(3)")
    )
    with pytest.raises(SiteError) as caught:
        run_steps((Step(bad.words, may_fail=True), bad, Step(python("print('after')"))), errors)
    assert caught.value.message.endswith("failed: Error: no space left on device")
    assert caught.value.hint == "free space where the tool keeps its images"
    assert "\nafter\n" not in errors.getvalue()


def test_a_tool_that_is_not_here() -> None:
    for name, hint in (
        ("no-such-tool", "--tool"),
        ("enroot", "github.com/NVIDIA/enroot"),
        ("aws", "--no-login"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", "/nowhere")
            with pytest.raises(SiteError, match=f"no {name} here") as caught:
                run_steps((Step((name, "x")),), io.StringIO())
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("ERROR: No matching distribution found for busbw==0.1.0", "--busbw a wheel"),
        ("exec /bin/sh: exec format error", "that processor"),
        ("Error: open /etc/containers/policy.json: no such file", "containers-common"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock", "--tool buildah"),
        ("denied: requested access to the resource is denied", "buildah login"),
        ("unable to pull image: dial tcp: lookup x: no such host", "--pull=never"),
        ("Unable to locate credentials. You can configure credentials by", "aws sts"),
        ("something else", ""),
    ],
)
def test_hints(said: str, hint: str) -> None:
    error = failed(("buildah", "build"), 125, ["STEP 1", said, "exit status 1"])
    assert hint in error.hint
    assert bool(error.hint) == bool(hint)


def test_as_a_shell_has_it() -> None:
    assert shell(Step(("a", "b c"))) == "a 'b c'"
    assert shell(Step(("a",), may_fail=True)) == "a || true"
    assert shell(Step(("a",), source=("p",))) == "p | a"
