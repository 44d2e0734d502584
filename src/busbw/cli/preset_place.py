"""What is said of the ranks' place, over what a preset says of it in other words: hosts that are named over
its hosts and its number of nodes, their slots over its ranks, nodes or ranks on each over its ranks in all,
and those over its ranks on each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.launchers.hosts_list import Place, read_places
from busbw.launchers.settle import PBS_NODES, with_pbs_hosts
from busbw.settings.launch import LaunchSettings

if TYPE_CHECKING:
    from cyclopts import Token
    from cyclopts.argument import Argument

NODES, EACH, RANKS = "--nodes", "--ranks-per-node", "--ranks"
HOSTS, HOSTFILE = "--hosts", "--hostfile"
# Words of --set that are nodes, or ranks on each.
_IN_SET: Final = ("replicas", "slots")
_NODES_IN_SET: Final = ("replicas",)
_RANKS_IN_SET: Final = ("np",)


@dataclass(frozen=True)
class Said:
    """``words`` that say a flag's ``value`` where that is one number, else none."""

    words: str
    value: str = ""


def place_said(by_name: Mapping[str, Argument], engine: str, environ: Mapping[str, str]) -> dict[str, Said]:
    """Flags of a place that a preset has nothing to add to, with the words that say them otherwise. Raises
    UsageError for hosts that cannot be read.
    """
    found: dict[str, Said] = {}
    if not engine:
        return found
    if ranks := [*_tokens(by_name, RANKS), *_words(by_name, _RANKS_IN_SET)]:
        found[EACH] = Said(f"{ranks[0].keyword} {ranks[0].value}")
    typed = [*_tokens(by_name, NODES), *_tokens(by_name, EACH), *_words(by_name, _IN_SET)]
    if typed:
        found[RANKS] = Said(f"{typed[0].keyword} {typed[0].value}")
    if nodes := _words(by_name, _NODES_IN_SET):
        found[NODES] = Said(f"{nodes[-1].keyword} {nodes[-1].value}", nodes[-1].value.partition("=")[2])
    if engine == "hosts":
        found.update(_by_hosts(by_name, environ))
    return found


def lines_of(preset: str, flags: Mapping[str, list[str]], said: Mapping[str, Said]) -> Iterator[str]:
    """A line for what of a preset's ``flags`` is left out, and differs from what is ``said``."""
    lost: dict[str, list[str]] = {}
    for flag, by in said.items():
        if flag in flags and flags[flag] != [by.value]:
            lost.setdefault(by.words, []).append(f"{flag} {' '.join(flags[flag])}")
    for words, others in lost.items():
        yield f"{words} takes the place of preset {preset}'s {' and '.join(others)}"


def _by_hosts(by_name: Mapping[str, Argument], environ: Mapping[str, str]) -> dict[str, Said]:
    """What the hosts of --hosts, of --hostfile or of a PBS job say."""
    hosts, file = _tokens(by_name, HOSTS), _tokens(by_name, HOSTFILE)
    launch = LaunchSettings(
        on="hosts", hosts=hosts[-1].value if hosts else "", hostfile=Path(file[-1].value) if file else None
    )
    launch, of_pbs = with_pbs_hosts(launch, environ)
    if not launch.hosts and launch.hostfile is None:
        return {}
    places = read_places(launch)
    slots = [place.slots or 0 for place in places]
    count = len({place.host for place in places})
    # PBS lists a host once where nobody asked for slots.
    has_slots = any(slots) and not (of_pbs and max(slots) == 1)
    whose = PBS_NODES if of_pbs else (hosts or file)[-1].keyword
    words = f"{whose} ({count} host{'s' * (count != 1)}{f', {sum(slots)} slots' * has_slots})"
    named = words if of_pbs else f"{whose} {(hosts or file)[0].value}"
    found = {HOSTS: Said(named), HOSTFILE: Said(named), NODES: Said(words, str(count))}
    if has_slots:
        found |= {EACH: Said(words, _on_each(places)), RANKS: Said(words, str(sum(slots)))}
    return found


def _on_each(places: tuple[Place, ...]) -> str:
    different = {place.slots for place in places}
    return str(*different) if len(different) == 1 else ""


def _words(by_name: Mapping[str, Argument], keys: Collection[str]) -> list[Token]:
    """Those of --set with one of the keys; a preset's name may stand before a key."""
    tokens = _tokens(by_name, "--set")
    return [token for token in tokens if token.value.partition("=")[0].rpartition(".")[2] in keys]


def _tokens(by_name: Mapping[str, Argument], flag: str) -> list[Token]:
    argument = by_name.get(flag)
    return argument.tokens if argument is not None else []
