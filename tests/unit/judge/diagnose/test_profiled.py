"""What exports of a profiler say, with a planted fault and without; and what they must not say."""

from __future__ import annotations

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
    record = record_of({SIZE: 1900.0}, ranks=2)
    record = replace(record, plan=replace(record.plan, profile="nsys"))
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


def asked(*profiles: Profile, wires: Wires = P4DE, hca: str = "") -> dict[str, Conclusion]:
    record = record_of({SIZE: 1900.0}, ranks=2, hosts=2)
    variables = {"NCCL_IB_HCA": hca} if hca else {}
    record = replace(record, plan=replace(record.plan, backend="nccl"), environment={"variables": variables})
    subject = Subject(record, expect((record,), ()), wires)
    return {each.check: each for each in diagnose(replace(subject, profiles=profiles))}


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


def sampled_nics(tmp_path: Path) -> Profile:
    """The published pair of nodes: each of four NICs reads 3.35 GB/s, at 10 Hz."""
    recorded = Recorded(host="p4de-1")
    for at in range(20):
        for nic in NICS:
            rate = 0.0 if at < 5 else 3.35e9 + at * (-1) ** at * 1e6
            recorded.generic(
                {"Device": nic, "rdma_read_bytes": rate, "rdma_write_bytes": 0}, at * 100_000_000
            )
    return read_profile(recorded.write(tmp_path / "nics.sqlite"))


def test_all_nics(tmp_path: Path) -> None:
    whole = asked(sampled_nics(tmp_path))["links.profiled"]
    flow = "4 x 3.35 GB/s, 27% of 4 lines' 50 GB/s"
    assert (whole.claim, whole.answer) == (f"all 4 NICs carried traffic on p4de-1 ({flow})", Answer.YES)
    assert "13.4 GB/s together, where the algbw of 25 MiB is 13.8 GB/s" in whole.evidence
    rates = {fact.name: fact.value for fact in whole.facts}
    assert abs(rates["p4de-1 rdmap16s27 rdma_read_bytes"] - 3.35) < 0.01


def test_rates_stand_beside_the_algbw_of_a_size_that_was_profiled(tmp_path: Path) -> None:
    kernels = of_rank(tmp_path, 0, [1900, 1900])
    record = record_of({SIZE: 1900.0, 64 * SIZE: 40_000.0}, ranks=2, hosts=2)

    def evidence(*profiles: Profile) -> str:
        subject = Subject(record, expect((record,), ()), P4DE, profiles=profiles)
        return next(each.evidence for each in diagnose(subject) if each.check == "links.profiled")

    nics = sampled_nics(tmp_path)
    assert "where the algbw of 1600 MiB is" in evidence(nics)
    assert "where the algbw of 25 MiB is 13.8 GB/s" in evidence(nics, kernels)
    other = replace(kernels, kernels=tuple(replace(each, size_bytes=4096) for each in kernels.kernels))
    assert "algbw" not in evidence(nics, other)


def of_rates(tmp_path: Path, rates: tuple[float, ...], busy: int) -> Conclusion:
    recorded = Recorded(host="p4de-0")
    for at in range(busy + 4):
        for nic, rate in zip(NICS, rates, strict=True):
            value = rate * 1e9 if 2 <= at < 2 + busy else 0.0
            recorded.generic({"Device": nic, "rdma_read_bytes": value}, at * 100_000_000)
    (tmp_path / "rates.sqlite").unlink(missing_ok=True)
    return asked(read_profile(recorded.write(tmp_path / "rates.sqlite")))["links.profiled"]


def test_few_samples_and_unequal_rates(tmp_path: Path) -> None:
    """A NIC at a third of the others' rate carried plenty, however short the burst was."""
    slow = of_rates(tmp_path, (10, 10, 10, 3.3), busy=3)
    assert slow.claim.startswith(
        "all 4 NICs carried traffic on p4de-0; rdmap160s27 carries 33.0% of the median NIC"
    )
    assert "(10, 10, 10, 3.3 GB/s, 67% of 4 lines' 50 GB/s)" in slow.claim
    assert (slow.severity, slow.answer) == (Severity.WARNING, Answer.NO)
    fast = of_rates(tmp_path, (10, 5, 5, 5), busy=20)
    assert "rdmap16s27 carries 60.0% more than an even share" in fast.claim
    assert fast.answer is Answer.NO
    even = of_rates(tmp_path, (5, 5, 5, 5), busy=2)
    assert even.answer is Answer.YES
    short = of_rates(tmp_path, (5, 5, 5, 0.01), busy=20)
    assert short.claim.startswith("3 of 4 NICs carried traffic on p4de-0: nothing on rdmap160s27 (3 x 5")
    assert (short.severity, short.answer, short.host) == (Severity.WARNING, Answer.NO, "p4de-0")


def test_a_nic_that_a_setting_leaves_out_is_not_missed(tmp_path: Path) -> None:
    recorded = Recorded(host="h1")
    for at in range(20):
        for nic, rate in (("mlx5_0", 24.4), ("mlx5_1", 24.4), ("mlx5_9", 0.0)):
            value = rate * 1e9 if 5 <= at < 19 else 0.0
            recorded.generic({"Device": nic, "rdma_read_bytes": value}, at * 100_000_000)
    profile = read_profile(recorded.write(tmp_path / "hca.sqlite"))
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
    steady = Recorded(host="h1")
    for at in range(20):
        for nic in NICS:
            steady.generic({"Device": nic, "tx_bytes": 12.5e9}, at * 100_000_000)
    told = asked(read_profile(steady.write(tmp_path / "steady.sqlite")))["links.profiled"]
    assert told.answer is Answer.UNDECIDED
    assert "cannot be decided" in told.claim
    one_falls = Recorded(host="h1")
    for at in range(20):
        for nic in NICS:
            value = 12.5e9 - (1e6 if nic == NICS[0] and at == 7 else 0)
            one_falls.generic({"Device": nic, "tx_bytes": value}, at * 100_000_000)
    told = asked(read_profile(one_falls.write(tmp_path / "falls.sqlite")))["links.profiled"]
    assert told.claim.startswith("all 4 NICs carried traffic")
    counted = Recorded(host="h1")
    for at in range(20):
        for nic in NICS:
            counted.generic(
                {"Device": nic, "tx_bytes": 5 + (at * 1e9 if nic != NICS[0] else 0)}, at * 100_000_000
            )
    told = asked(read_profile(counted.write(tmp_path / "counts.sqlite")))["links.profiled"]
    assert told.claim.startswith(f"3 of 4 NICs carried traffic on h1: nothing on {NICS[0]}")
