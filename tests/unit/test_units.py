from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw import units
from busbw.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        (" 64K ", 65536),
        ("64k", 65536),
        ("1.5G", 1610612736),
        ("4MiB", 4194304),
        ("1 GiB", 1073741824),
        ("17B", 17),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size_bytes: int) -> None:
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "K", "-8", "8X", "1e3", "0.3", "1.00001K", "8 8", "0x10", "nan"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        units.parse_size(text)


def test_decimal_looking_sizes_are_refused_with_both_readings() -> None:
    with pytest.raises(UsageError, match=r"ambiguous size: '64KB'") as refused:
        units.parse_size("64KB")
    assert "64K or 64KiB" in refused.value.hint


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (8, "8 B"), (1000, "1000 B"), (1024, "1 KiB"), (1536, "1536 B"), (3 * 2**30, "3 GiB")],
)
def test_sizes_are_written_exactly(size_bytes: int, text: str) -> None:
    assert units.format_size(size_bytes) == text


@given(st.integers(min_value=0, max_value=2**50))
def test_a_written_size_reads_back(size_bytes: int) -> None:
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


def test_approximate_sizes() -> None:
    assert units.format_approximate_size(3.25 * 2**30) == "3.2 GiB"
    assert units.format_approximate_size(100) == "100 B"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30.0), ("500ms", 0.5), ("1.5s", 1.5), ("2min", 120.0), ("2m", 120.0), ("1 h", 3600.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 days", "1 year"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration"):
        units.parse_duration(text)


@pytest.mark.parametrize(("text", "fraction"), [("1%", 0.01), ("0.01", 0.01), (" 2.5% ", 0.025)])
def test_fractions(text: str, fraction: float) -> None:
    assert units.parse_fraction(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["0", "1", "100%", "-1%", "nan", "inf", "one", ""])
def test_fractions_lie_between_0_and_1(text: str) -> None:
    with pytest.raises(UsageError):
        units.parse_fraction(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.012, "12 ms"), (7.31, "7.3 s"), (60, "1:00"), (245, "4:05"), (3723, "1:02:03")],
)
def test_durations_for_reading(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


def test_bandwidth_is_decimal() -> None:
    # 10^9 bytes in one second.
    assert units.gb_per_s(1e9, 1e9) == 1.0


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0.0%"), (0.123, "12.3%"), (0.001, "0.1%"), (0.0009, "under 0.1%"), (-0.5, "-50.0%"),
     (0.9996, "100%"), (2.014, "201%"), (9.99, "999%"), (49.583, "50x"), (3.4e17, "over 1000x")],
)  # fmt: skip
def test_a_share_has_three_digits_at_most(share: float, text: str) -> None:
    assert units.format_share(share) == text


def test_a_share_with_a_sign_and_more_decimals_and_in_a_column() -> None:
    assert units.format_share(0.0312, "+") == "+3.1%"
    assert [units.format_share(share, "", 2) for share in (0.00042, 0.1234)] == ["0.04%", "12.3%"]
    assert [units.format_share_short(share) for share in (1e-5, 1e6)] == ["<0.1%", ">1000x"]


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(820, "820 ns"), (11_470, "11.5 us"), (999_960, "1.00 ms"), (3.28e7, "32.8 ms"), (2.5e9, "2.50 s")],
)
def test_times_have_their_unit_and_no_exponent(time_ns: float, text: str) -> None:
    assert units.format_time(time_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (487.26, "487.3"),
        (12345, "12340"),
        (1.0949, "1.095"),
        (0.2639, "0.264"),
        (0.00112, "0.0011"),
        (0, "0"),
    ],
)
def test_bandwidths_are_as_people_write_them(value: float, text: str) -> None:
    assert units.format_gb_per_s(value) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["h1", "h2", "h3", "h5", "h6"], ["h[1-3,5-6]"]),
        (["n08", "n09", "n10", "n7", "login"], ["n[08-10,7]", "login"]),
        (["h8", "h9", "h10", "ip-10-0-0-1.pod"], ["h[8-10]", "ip-10-0-0-1.pod"]),
    ],
)
def test_names_with_numbers_are_shown_as_slurm_does(names: list[str], text: list[str]) -> None:
    assert units.name_ranges(names) == text
