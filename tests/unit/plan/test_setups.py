"""Setups: what they come to, their order, one change at a time, and the files of a winner."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.plan.setup_file import parse_setups, read_setups
from busbw.plan.setups import (
    Setup,
    blocks,
    env_file,
    nccl_conf,
    one_at_a_time,
    over,
    resolve,
    variables,
)

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "setups").glob("*.yaml"))

SPEC = """
default: plain
setups:
  fast: {extends: tuned, env: {NCCL_ALGO: Ring}, flags: {buffers: nccl}}
  plain: {env: {NCCL_DEBUG: WARN}}
  tuned:
    extends: plain
    env: {NCCL_NET: AWS Libfabric, NCCL_BUFFSIZE: 8388608}
    prepend: {LD_LIBRARY_PATH: /a/lib}
    unset: [NCCL_DEBUG]
"""


def test_a_setup_has_what_it_extends() -> None:
    plain, fast, tuned = resolve(parse_setups(SPEC, "spec"))
    assert (plain.name, fast.name, tuned.name) == ("plain", "fast", "tuned")  # the default first
    assert fast.environ == {"NCCL_NET": "AWS Libfabric", "NCCL_BUFFSIZE": "8388608", "NCCL_ALGO": "Ring"}
    assert (fast.unset, fast.lineage, fast.flags) == (
        ("NCCL_DEBUG",),
        ("tuned", "plain"),
        {"buffers": "nccl"},
    )
    assert tuned.flags == {}


def test_folders_go_before_what_is_inherited() -> None:
    (base,) = [setup for setup in resolve(parse_setups(SPEC, "spec")) if setup.name == "tuned"]
    assert variables(base, {"LD_LIBRARY_PATH": "/usr/lib"})["LD_LIBRARY_PATH"] == "/a/lib:/usr/lib"
    assert variables(base, {})["LD_LIBRARY_PATH"] == "/a/lib"
    nested = "setups: {a: {prepend: {P: /1}}, b: {extends: a, prepend: {P: /2}}}"
    (_, second) = resolve(parse_setups(nested, "spec"))
    assert variables(second, {"P": "/0"})["P"] == "/2:/1:/0"


@pytest.mark.parametrize(
    ("base", "above", "found"),
    [
        ("prepend: {P: /new}", "env: {P: /only}", {"P": "/only"}),  # whatever was put before it below
        ("unset: [P]", "env: {P: 1}", {"P": "1"}),
    ],
)
def test_what_is_set_is_set(base: str, above: str, found: dict[str, str]) -> None:
    _, setup = resolve(parse_setups(f"setups: {{a: {{{base}}}, b: {{extends: a, {above}}}}}", "spec"))
    assert (variables(setup, {"P": "/old"}), setup.unset) == (found, ())


def test_a_circle_is_refused() -> None:
    with pytest.raises(UsageError, match="extend each other: a extends b extends a"):
        resolve(parse_setups("setups: {a: {extends: b}, b: {extends: a}}", "spec"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "setups:\n  a:\n    env: {X: true}",
            "spec, line 3: setups: a: env: X: input should be a valid string",
        ),
        ("setups: {a: {env: {1X: a}}}", "'1X' is no name of a variable"),
        ("setups: {a: {ENV: {X: a}}}", "'ENV' is not known"),
        ("setups: {a: {flags: {minbytes: 8}}}", "flags: 'minbytes' is not known"),
        ("setups: {a: {flags: {buffers: cloud}}}", "flags: --buffers: 'cloud': Input should be 'device'"),
        ("setups: {a: {extends: z}}", "no setup 'z'"),
        ("setups: {'a b': {}}", "'a b' is no name"),
        ("setups: {a: [1]}", "is not a list of KEY: VALUE"),
        ("setups: {}", "setups: dictionary should have at least 1 item"),
        ("a: [", "is not YAML"),
        ("setups: {a: {unset: PATH}}", "unset: input should be a valid list"),
        ("setups: {a: {flags: &f {nccl: *f}}}", "flags: --nccl: .* Input should be a valid string"),
        ('setups: {a: {prepend: {X: "a\\0b"}}}', "has a character that a variable cannot hold"),
        ('setups: {a: {flags: {nccl: "a\\0b"}}}', "has a character that a variable cannot hold"),
    ],
)
def test_what_no_setup_can_be_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_setups(text, "spec")
    assert refused.value.hint


def test_numbers_of_variables_are_taken_as_written_and_those_of_flags_read() -> None:
    body = "{env: {X: 2.10, Y: 0x10, Z: 010}, flags: {cudagraph: 4, hot: true}}"
    (setup,) = resolve(parse_setups(f"setups: {{a: {body}}}", "spec"))
    assert setup.environ == {"X": "2.10", "Y": "0x10", "Z": "010"}
    assert setup.flags == {"cudagraph": 4, "hot": True}


def test_every_block_has_every_setup_once_in_an_order_of_its_own() -> None:
    made = blocks(["a", "b", "c"], 40, seed=5)
    assert made == blocks(["a", "b", "c"], 40, seed=5)
    assert made != blocks(["a", "b", "c"], 40, seed=6)
    assert all(sorted(block) == ["a", "b", "c"] for block in made)
    firsts = [block[0] for block in made]
    assert {name: firsts.count(name) >= 6 for name in "abc"} == dict.fromkeys("abc", True)


def test_one_change_at_a_time() -> None:
    made = one_at_a_time(resolve(parse_setups(SPEC, "spec")))
    assert [setup.name for setup in made] == [
        "plain", "NCCL_NET=AWS Libfabric", "NCCL_BUFFSIZE=8388608", "NCCL_ALGO=Ring",
        "LD_LIBRARY_PATH=/a/lib:", "-NCCL_DEBUG", "--buffers=nccl",
    ]  # fmt: skip
    only = made[3]
    assert dict(only.environ) == {"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring"}
    assert made[5].environ == {}


def test_what_the_default_has_and_a_setup_lacks_is_a_change_too() -> None:
    text = """
setups:
  old:
    env: {A: "1", B: "2"}
    prepend: {P: /old}
    unset: [GONE]
    flags: {hot: true}
  new:
    env: {B: "3", GONE: "4"}
"""
    made = {setup.name: setup for setup in one_at_a_time(resolve(parse_setups(text, "spec")))}
    assert list(made) == ["old", "B=3", "GONE=4", "A not set", "P not prepended", "--hot not given"]
    assert dict(made["A not set"].environ) == {"B": "2"}
    assert not made["P not prepended"].prepend
    assert not made["--hot not given"].flags
    assert made["GONE=4"].unset == ()  # what it sets is not taken away again
    kept = one_at_a_time(resolve(parse_setups("setups: {a: {unset: [X]}, b: {}}", "spec")))
    assert [(setup.name, setup.unset) for setup in kept] == [("a", ("X",)), ("X as inherited", ())]


def test_the_environment_file_is_what_a_shell_reads(tmp_path: Path) -> None:
    setup = Setup("odd", {"A": 'it\'s $HOME "x"', "B": ""}, {"P": "/new lib"}, ("GONE",), {"buffers": "nccl"})
    path = tmp_path / "setup.env"
    path.write_text(env_file(setup, ["a remark"]))
    script = f'. {path}; printf "%s|" "$A" "$B" "$P" "${{GONE-none}}"'
    for before, after in (("/old", "/new lib:/old"), (None, "/new lib")):
        environ = {"GONE": "1", "PATH": "/bin:/usr/bin", **({"P": before} if before else {})}
        told = subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, check=True)
        assert told.stdout == f'it\'s $HOME "x"||{after}|none|'


def test_what_went_over_every_setup_is_in_its_file() -> None:
    """The file is to repeat what was measured, and there --env held."""
    setup = Setup(
        "s", {"A": "1", "NCCL_ALGO": "Tree"}, {"P": "/new"}, ("GONE", "NOT"), {"nccl": "x\ntouch y"}
    )
    measured = over(setup, {"NCCL_ALGO": "Ring", "P": "/only", "GONE": "here"})
    lines = env_file(measured).splitlines()
    assert lines == [
        "unset NOT", "export A=1", "export NCCL_ALGO=Ring", "export P=/only", "export GONE=here",
        "# busbw flag: --nccl 'x\\ntouch y'",
    ]  # fmt: skip
    assert "NCCL_ALGO=Ring" in nccl_conf(measured)


def test_flags_are_in_both_files_as_they_are_typed() -> None:
    setup = Setup("s", flags={"hot": True, "cudagraph": 8})
    told = ["# busbw flag: --hot", "# busbw flag: --cudagraph 8"]
    assert env_file(setup).splitlines() == nccl_conf(setup).splitlines() == told
    assert env_file(Setup("s", flags={"hot": False})) == "# busbw flag: without --hot\n"


def test_nccl_conf_has_nccls_own_variables_only() -> None:
    setup = Setup("s", {"NCCL_NET": "AWS Libfabric", "FI_PROVIDER": "efa"}, {"LD_LIBRARY_PATH": "/a"}, ("X",))
    assert nccl_conf(setup, ["remark"]).splitlines() == [
        "# remark",
        "# not NCCL's own, set in the environment: FI_PROVIDER, LD_LIBRARY_PATH",
        "# unset in the environment: X",
        "NCCL_NET=AWS Libfabric",
    ]
    with pytest.raises(UsageError, match="cannot be written"):
        nccl_conf(Setup("s", {"NCCL_NET": "a\nb"}))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_ready_example_parses_renders_and_says_its_source(path: Path) -> None:
    file = read_setups(path)
    assert file.source
    setups = resolve(file)
    assert setups[0].name == file.default
    assert len(one_at_a_time(setups)) >= 2
    # Engines can set variables and cannot take them away.
    assert not any(setup.unset for setup in setups)
    for setup in setups:
        assert env_file(setup)
        assert nccl_conf(setup)
        assert all(isinstance(value, str) for value in variables(setup, {}).values())


def test_a_file_of_a_winner_has_no_value_that_only_a_part_of_was_kept() -> None:
    kept = {"A": '{"password": "[redacted]"}', "B": "1"}
    text = env_file(Setup("best", kept, prepend={"C": "[redacted]", "D": "/a"}))
    assert "[redacted]" not in text
    assert [line for line in text.splitlines() if "secret" in line] == [
        "# A is a secret: set it yourself",
        "# C is a secret: set it yourself",
    ]
    assert "export B=1\n" in text
    assert "export D=/a" in text
