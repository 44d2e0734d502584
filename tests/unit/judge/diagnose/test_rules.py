"""Expected, algorithm, variance, ranks: each with a planted fault and with a healthy run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions, digests_of, sampled

from busbw.errors import ExitCode
from busbw.judge.compare_arms import key_of
from busbw.judge.diagnose.engine import answer, exit_code
from busbw.judge.own_reference import reference_of
from busbw.judge.references.reference import Reference
from busbw.judge.wires import Wires
from busbw.model.choice import Choice
from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord
from busbw.model.result import Status, WrongData
from busbw.plan.presets.preset import read_preset

SIZES = tuple(2**power for power in range(10, 22, 2))


def saved(factor: float = 1.0) -> list[Reference]:
    record = record_of({size: size / 100 * factor for size in SIZES}, ranks=4, name="known")
    cases = zip(record.plan.cases, record.results, strict=True)
    return reference_of("good", record, {key_of(case): (result.time_ns or 0.0,) for case, result in cases})


def noisy(seed: int, spread: float = 0.01) -> tuple[RunRecord, np.ndarray]:
    draw = np.random.default_rng(seed)
    return sampled({size: size / 100 * np.exp(draw.normal(0, spread, 60)) for size in SIZES}, ranks=4)


def test_ten_healthy_runs_have_no_severe_finding() -> None:
    for seed in range(10):
        record, samples = noisy(seed)
        draw = np.random.default_rng(1000 + seed)
        digests = digests_of(record, np.exp(draw.normal(0, 0.0005, 4)))
        found = conclusions(record, samples=samples, digests=digests, references=saved())
        assert all(each.severity is not Severity.ERROR for each in found.values()), found
        assert exit_code(list(found.values())) is ExitCode.OK
        answers = {question: answer(question, list(found.values())) for question in Question}
        assert answers[Question.EXPECTED] is answers[Question.VARIANCE] is Answer.YES
        assert answers[Question.RANKS] is Answer.YES


def test_a_tenth_of_the_speed_is_below() -> None:
    record = record_of({size: size / 10 for size in SIZES}, ranks=4)
    found = conclusions(record, references=saved())["expected.reference"]
    assert (found.answer, found.severity) == (Answer.NO, Severity.ERROR)
    assert "6 of 6 cases are below what good reached" in found.claim
    assert " all_reduce out-of-place 10%" in found.claim


def test_wrong_data_come_first() -> None:
    record = record_of({1024: 10.0, 4096: 20.0}, ranks=4)
    where = (WrongData(3, "node0", 7, 12),)
    bad = replace(record.results[1], status=Status.WRONG, wrong=7, wrong_at=where, busbw_gb_per_s=None)
    found = conclusions(replace(record, results=(record.results[0], bad)))["expected.data"]
    assert (found.severity, found.rank, found.case) == (Severity.ERROR, 3, 1)


def test_more_than_the_wires_allow_cannot_be() -> None:
    wires = Wires(nvlink_gb_per_s=1.0, source="NVML")
    record = record_of({2**20: 1.0}, ranks=4, algorithm="RING SIMPLE")  # 1.57 TB/s
    found = conclusions(record, wires=wires)["expected.limit"]
    assert found.severity is Severity.WARNING
    assert found.claim.endswith("which cannot be")
    slow = conclusions(record_of({2**20: 3000.0}, ranks=4, algorithm="RING SIMPLE"), wires=wires)
    assert "reaches 52 % of what the wires allow" in slow["expected.limit"].claim


def test_more_than_the_line_rate_of_a_node_cannot_be() -> None:
    record = record_of({2**20: 1.0}, ranks=4, hosts=2, variables={"NCCL_MNNVL_ENABLE": "0"})
    found = conclusions(record, wires=Wires(network_gb_per_s=1.0, nics=1, source="the test"))["expected.wire"]
    assert (found.severity, found.answer) == (Severity.WARNING, Answer.NO)
    assert found.claim.endswith("of their rate, which cannot be")
    assert found.hint


def test_algorithms_by_size_and_what_forced_them() -> None:
    record = record_of({1024: 10.0, 4096: 20.0, 2**20: 90.0}, ranks=4, plan={"backend": "nccl"})
    words = ("RING LL", "RING LL", "NVLS SIMPLE")
    results = tuple(replace(r, algorithm=w) for r, w in zip(record.results, words, strict=True))
    record = replace(record, results=results)
    found = conclusions(record)
    assert found["algorithm.observed"].claim == "all_reduce: RING LL at 1 KiB to 4 KiB; NVLS SIMPLE at 1 MiB"
    assert "algorithm.forced" not in found
    variables = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "0", "NCCL_DEBUG": "INFO"}
    forced = conclusions(replace(record, environment={"variables": variables}))["algorithm.forced"]
    assert forced.severity is Severity.WARNING
    assert "NCCL_P2P_DISABLE=1" in forced.claim
    assert "SHM" not in forced.claim
    assert "through host memory" in forced.evidence
    conf = [{"path": "/etc/nccl.conf", "settings": [["NCCL_ALGO", "Ring"]]}]
    of_file = conclusions(replace(record, environment={"nccl_config": conf}))["algorithm.forced"]
    assert "NCCL_ALGO=Ring" in of_file.claim


def test_a_setting_that_chooses_the_network_is_said_of_the_network() -> None:
    for hosts, is_said in ((2, True), (1, False)):
        found = conclusions(
            record_of({8: 1.0}, hosts=hosts, plan={"backend": "nccl"}, variables={"NCCL_IB_DISABLE": "1"})
        )
        assert "algorithm.forced" not in found
        assert ("expected.log" in found and "NCCL_IB_DISABLE=1" in found["expected.log"].claim) == is_said


def test_defaults_force_nothing_and_a_preset_is_named() -> None:
    def found(variables: dict[str, str], *presets: str) -> dict[str, Conclusion]:
        record = record_of({1024: 10.0}, variables=variables, plan={"backend": "nccl"})
        return conclusions(replace(record, settings={"presets_used": list(presets)}))

    defaults = {"NCCL_COLLNET_ENABLE": "0", "NCCL_NVLS_ENABLE": "2", "NCCL_TUNER_PLUGIN": "none"}
    assert not {"algorithm.forced", "algorithm.preset"} & found(defaults).keys()
    sharp = read_preset("coreweave/h100-sharp")
    used = f"{sharp.name}@{sharp.date}"
    own = found({"NCCL_COLLNET_ENABLE": "1", "NCCL_ALGO": "COLLNETCHAIN"}, used)
    assert "algorithm.forced" not in own
    assert own["algorithm.preset"].severity is Severity.INFO
    assert f"NCCL_ALGO=COLLNETCHAIN (preset {used})" in own["algorithm.preset"].claim
    mixed = found({"NCCL_COLLNET_ENABLE": "1", "NCCL_ALGO": "Ring", "NCCL_NVLS_ENABLE": "0"}, used)
    assert mixed["algorithm.forced"].claim.endswith(": NCCL_ALGO=Ring, NCCL_NVLS_ENABLE=0")
    assert "COLLNET" in mixed["algorithm.preset"].claim
    assert "algorithm.forced" in found({"NCCL_COLLNET_ENABLE": "1"}, "mine/gone@2026-01")
    older = found({"NCCL_TUNER_PLUGIN": "libnccl-ofi-tuner.so"}, "aws/p5.48xlarge@2026-02")
    assert "algorithm.forced" not in older


def test_sends_and_receives_and_channels_are_told() -> None:
    record = record_of({1024: 10.0, 4096: 20.0}, ranks=4, operation="alltoall")
    choices = [Choice("profiler v5", functions=("Send", "Recv"), channels=many) for many in (2, 8)]
    results = tuple(replace(r, choice=c) for r, c in zip(record.results, choices, strict=True))
    seen = conclusions(replace(record, results=results))["algorithm.observed"]
    assert seen.answer is Answer.YES
    assert seen.claim == "alltoall: Send and Recv, 2 to 8 channels at 1 KiB to 4 KiB"


def test_ranks_that_chose_differently() -> None:
    record = record_of({1024: 10.0, 4096: 20.0}, ranks=4)
    choices = (
        Choice("profiler v5", "RING", "LL", ranks=4),
        Choice("profiler v5", "RING", "LL", ranks=3, other_ranks=1),
    )
    results = tuple(
        replace(result, algorithm=choice.words, choice=choice)
        for result, choice in zip(record.results, choices, strict=True)
    )
    found = conclusions(replace(record, results=results))
    assert found["algorithm.ranks"].severity is Severity.WARNING
    assert "in 1 of 2 cases" in found["algorithm.ranks"].claim
    assert found["algorithm.observed"].facts[0].source == "NCCL's profiler v5 of one untimed call"


@pytest.mark.parametrize(("having", "severity"), [(SIZES[2:3], Severity.INFO), (SIZES[2:], Severity.WARNING)])
def test_two_modes_are_named_with_their_shares(having: Sequence[int], severity: Severity) -> None:
    draw = np.random.default_rng(1)
    times = {size: size / 100 * np.exp(draw.normal(0, 0.003, 100)) for size in SIZES}
    for size in having:
        times[size][::3] *= 1.2 if size == SIZES[2] else 1.15
    record, samples = sampled(times, ranks=4)
    found = conclusions(record, samples=samples)["variance.modes"]
    assert found.severity is severity
    assert found.claim.startswith(f"{len(having)} of 6 cases have two modes; all_reduce 16 KiB: 66% near 163")
    assert found.case == 2


def test_one_rank_of_its_own_pace_is_named() -> None:
    record, samples = noisy(3)
    found = conclusions(record, samples=samples, digests=digests_of(record, (1.0, 1.0, 1.4, 1.0)))
    assert found["ranks.spread"].answer is Answer.NO
    odd = found["ranks.odd"]
    assert (odd.rank, odd.host, odd.severity) == (2, "node0", Severity.WARNING)
    assert "40.0%" in found["ranks.spread"].claim


def test_logs_say_what_they_cannot_tell() -> None:
    found = conclusions(record_of({1024: 10.0}, ranks=4))
    for check in ("links.used", "algorithm.observed", "variance.precision", "ranks.spread"):
        assert found[check].answer is Answer.NOT_OBSERVABLE, check
    assert found["expected.reference"].answer is Answer.NOT_OBSERVABLE
    assert exit_code(list(found.values())) is ExitCode.UNDECIDED
