"""What exports of a profiler say, with a planted fault and without; and what they must not say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions
from busbw_testing.nsys import Recorded

from busbw.cli.diagnose import diagnosed
from busbw.foreign.nsys.read import read_profile
from busbw.judge.diagnose.engine import diagnose
from busbw.judge.diagnose.subject import Subject
from busbw.judge.expectation import expect
from busbw.judge.wires import Wires
from busbw.model.conclusion import Answer, Conclusion
from busbw.model.finding import Severity
from busbw.model.profile import Profile
from busbw.record.folder import NSYS_FOLDER

RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SIZE = 26_214_400
NICS = ("rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27")


P4DE = Wires(network_gb_per_s=50.0, nics=4, source="preset aws/p4de.24xlarge")


def test_exports_that_were_to_be_there_are_missed(tmp_path: Path) -> None:
    record = record_of({SIZE: 1900.0}, plan={"profile": "nsys"})
    folder = tmp_path / NSYS_FOLDER
    folder.mkdir(parents=True)

    def told(*nsys: Path) -> list[str]:
        found = diagnosed(record, tmp_path, nsys).conclusions
        return [each.claim for each in found if each.check == "whole.profiles"]

    assert told() == ["2 of 2 ranks left no export of Nsight Systems"]
    for rank in range(2):
        (folder / f"rank-{rank}.nsys-rep").write_text("a report, and no export")
    assert told() == ["2 of 2 ranks left no export of Nsight Systems"]
    of_rank(folder, 0, [1900])
    (folder / "1.sqlite").write_text("half an export")
    assert told() == ["1 of 2 ranks left no export of Nsight Systems"]
    assert told(folder / "0.sqlite") == []  # whoever names files looks at those
    (folder / "1.sqlite").unlink()
    of_rank(folder, 1, [1900])
    assert told() == []


def asked(*profiles: Profile, hca: str = "", sizes: tuple[int, ...] = (1,)) -> dict[str, Conclusion]:
    """Of a run of so many times ``SIZE``, the smallest in 1.9 ms."""
    times = {size * SIZE: 1900.0 if size == 1 else 40_000.0 for size in sizes}
    record = record_of(times, hosts=2, variables={"NCCL_IB_HCA": hca}, plan={"backend": "nccl"})
    subject = Subject(record, expect((record,), ()), P4DE, profiles=profiles)
    return {each.check: each for each in diagnose(subject)}


def sampled_nics(
    tmp_path: Path,
    counted: Callable[[int, str], float],
    counter: str = "rdma_read_bytes",
    nics: tuple[str, ...] = NICS,
    **others: float,
) -> Profile:
    """24 samples of a host's NICs at 10 Hz, of which each has so many B/s or B, and ``others`` always."""
    recorded = Recorded(host="h1")
    for at in range(24):
        for nic in nics:
            recorded.generic({"Device": nic, counter: counted(at, nic), **others}, at * 100_000_000)
    (tmp_path / "nics.sqlite").unlink(missing_ok=True)
    return read_profile(recorded.write(tmp_path / "nics.sqlite"))


def published(tmp_path: Path) -> Profile:
    """The published pair of nodes: each of four NICs reads 3.35 GB/s, and writes nothing."""

    def counted(at: int, _: str) -> float:
        return 0.0 if at < 5 else 3.35e9 + at * (-1) ** at * 1e6

    return sampled_nics(tmp_path, counted, rdma_write_bytes=0)


def of_rank(tmp_path: Path, rank: int, durations_us: list[float]) -> Profile:
    recorded = Recorded(rank=rank, host=f"node{rank}")
    recorded.communicator()
    for duration in durations_us:
        recorded.call(RING, int(duration * 1000), size_bytes=SIZE)
    return read_profile(recorded.write(tmp_path / f"{rank}.sqlite"))


def test_kernels_by_rank_and_size(tmp_path: Path) -> None:
    found = asked(of_rank(tmp_path, 0, [1860, 1870, 1880]), of_rank(tmp_path, 1, [1960, 1970, 2420]))
    ranks = found["ranks.kernels"]
    assert ranks.claim == (
        "ranks' kernels differ by 5.2% at most, at AllReduce 25 MiB: rank 0 has the shortest, 1.870 ms,"
        " rank 1 the longest, 1.970 ms"
    )
    assert ranks.answer is Answer.UNDECIDED
    assert ranks.severity is Severity.INFO
    variance = found["variance.kernels"]
    assert (
        "kernels of AllReduce 25 MiB vary most: CV 12.4% over 3, 1.960 ms to 2.420 ms around 1.970 ms"
        in variance.claim
    )
    assert "sizes by the range of each kernel's launch" in variance.evidence
    facts = {fact.name: fact.value for fact in variance.facts}
    assert facts["AllReduce 25 MiB rank 1 n"] == 3
    assert facts["AllReduce 25 MiB rank 1 max"] == 2420.0
    assert facts["AllReduce 25 MiB rank 0 p99"] == 1880.0


def test_a_name_is_not_taken_for_an_algorithm(tmp_path: Path) -> None:
    found = asked(of_rank(tmp_path, 0, [10.0]))
    told = found["algorithm.kernels"]
    assert told.claim.startswith("a kernel's name shows AllReduce of f32, no tree (a ring, NVLS or CollNet)")
    assert told.answer is Answer.NOT_OBSERVABLE
    assert {fact.name for fact in told.facts} == {"collective", "type class", "tree"}
    assert found["algorithm.observed"].answer is Answer.NOT_OBSERVABLE
    assert not any(word in str(found) for word in ("RING LL", "RING_LL"))


def test_all_nics(tmp_path: Path) -> None:
    whole = asked(published(tmp_path))["links.profiled"]
    flow = "4 x 3.35 GB/s, 27% of 4 lines' 50 GB/s"
    assert (whole.claim, whole.answer) == (f"all 4 NICs carried traffic on h1 ({flow})", Answer.YES)
    assert "13.4 GB/s together, where the algbw of 25 MiB is 13.8 GB/s" in whole.evidence
    rates = {fact.name: fact.value for fact in whole.facts}
    assert abs(rates["h1 rdmap16s27 rdma_read_bytes"] - 3.35) < 0.01


def test_rates_stand_beside_the_algbw_of_a_size_that_was_profiled(tmp_path: Path) -> None:
    kernels, nics = of_rank(tmp_path, 0, [1900, 1900]), published(tmp_path)

    def evidence(*profiles: Profile) -> str:
        return asked(*profiles, sizes=(1, 64))["links.profiled"].evidence

    assert "where the algbw of 1600 MiB is" in evidence(nics)
    assert "where the algbw of 25 MiB is 13.8 GB/s" in evidence(nics, kernels)
    other = replace(kernels, kernels=tuple(replace(each, size_bytes=4096) for each in kernels.kernels))
    assert "algbw" not in evidence(nics, other)


def test_few_samples_and_unequal_rates(tmp_path: Path) -> None:
    """A NIC at a third of the others' rate carried plenty, however short the burst was."""

    def told(*rates: float, busy: int) -> Conclusion:
        gb_per_s = dict(zip(NICS, rates, strict=True))
        nics = sampled_nics(tmp_path, lambda at, nic: gb_per_s[nic] * 1e9 * (2 <= at < 2 + busy))
        return asked(nics)["links.profiled"]

    slow = told(10, 10, 10, 3.3, busy=3)
    assert slow.claim.startswith(
        "all 4 NICs carried traffic on h1; rdmap160s27 carries 33.0% of the median NIC"
    )
    assert "(10, 10, 10, 3.3 GB/s, 67% of 4 lines' 50 GB/s)" in slow.claim
    assert (slow.severity, slow.answer) == (Severity.WARNING, Answer.NO)
    fast = told(10, 5, 5, 5, busy=20)
    assert "rdmap16s27 carries 60.0% more than an even share" in fast.claim
    assert fast.answer is Answer.NO
    even = told(5, 5, 5, 5, busy=2)
    assert even.answer is Answer.YES
    short = told(5, 5, 5, 0.01, busy=20)
    assert short.claim.startswith("3 of 4 NICs carried traffic on h1: nothing on rdmap160s27 (3 x 5")
    assert (short.severity, short.answer, short.host) == (Severity.WARNING, Answer.NO, "h1")


def test_a_nic_that_a_setting_leaves_out_is_not_missed(tmp_path: Path) -> None:
    rates = {"mlx5_0": 24.4e9, "mlx5_1": 24.4e9, "mlx5_9": 0.0}
    profile = sampled_nics(tmp_path, lambda at, nic: rates[nic] * (5 <= at < 19), nics=tuple(rates))
    assert asked(profile)["links.profiled"].claim.startswith("2 of 3 NICs")
    chosen = asked(profile, hca="mlx5_0,mlx5_1")["links.profiled"]
    assert chosen.claim.startswith("all 2 NICs carried traffic on h1")
    assert (chosen.severity, chosen.answer) == (Severity.INFO, Answer.YES)
    assert "NCCL_IB_HCA leaves out mlx5_9" in chosen.evidence
    assert asked(profile, hca="^mlx5_9")["links.profiled"].answer is Answer.YES
    assert asked(profile, hca="mlx5_0,mlx5_9")["links.profiled"].claim.startswith("1 of 2 NICs")


def test_what_an_export_lacks_is_not_observable(tmp_path: Path) -> None:
    found = asked(read_profile(Recorded().write(tmp_path / "bare.sqlite")))
    for check in ("links.profiled", "variance.kernels", "ranks.kernels"):
        assert found[check].answer is Answer.NOT_OBSERVABLE
        assert found[check].hint
    assert found["links.profiled"].hint.startswith("profile with --nic-metrics")


def test_a_profiled_run_is_held_against_nothing() -> None:
    record = record_of({SIZE: 1900.0}, ranks=2)
    results = tuple(replace(result, conditions=("profiled",)) for result in record.results)
    found = conclusions(replace(record, results=results))
    assert found["expected.profiled"].answer is Answer.NOT_OBSERVABLE
    assert "expected.reference" not in found
    for check in ("variance.profiled", "ranks.profiled"):
        assert found[check].answer is Answer.NOT_OBSERVABLE
    assert not [check for check in found if check in ("variance.precision", "ranks.spread")]
    assert not [check for check in found if check.endswith((".kernels", "links.profiled"))]


def test_a_steady_rate_is_not_a_count_of_nothing(tmp_path: Path) -> None:
    """Values that never fall are either; and one that falls on one device is a rate on all of them."""

    def told(counted: Callable[[int, str], float]) -> Conclusion:
        return asked(sampled_nics(tmp_path, counted, "tx_bytes"))["links.profiled"]

    steady = told(lambda at, nic: 12.5e9)
    assert steady.answer is Answer.UNDECIDED
    assert "cannot be decided" in steady.claim
    one_falls = told(lambda at, nic: 12.5e9 - (1e6 if nic == NICS[0] and at == 7 else 0))
    assert one_falls.claim.startswith("all 4 NICs carried traffic")
    counts = told(lambda at, nic: 5 + (at * 1e9 if nic != NICS[0] else 0))
    assert counts.claim.startswith(f"3 of 4 NICs carried traffic on h1: nothing on {NICS[0]}")
