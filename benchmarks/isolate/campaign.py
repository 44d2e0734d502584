"""Hunts on eight hosts in network namespaces, all links shaped to 200 Mbit/s, one of them made worse.

Each hunt is a command as a person types it; the fault and its host are drawn anew. Prints a JSON line a hunt
and a table at the end. Needs root. Thresholds come from each hunt's own noise; nothing here is tuned by it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.environ import clean_environ
from busbw_testing.namespaces import Hosts
from busbw_testing.shaping import NOMINAL_MBIT, clear, lose, send_at, why_no_shaping
from busbw_testing.started import completed

FAULTS: dict[str, Callable[[Hosts, str], None]] = {
    "none": lambda hosts, name: None,
    "rate -5%": lambda hosts, name: send_at(hosts, name, 0.95 * NOMINAL_MBIT),
    "rate -10%": lambda hosts, name: send_at(hosts, name, 0.90 * NOMINAL_MBIT),
    "rate -30%": lambda hosts, name: send_at(hosts, name, 0.70 * NOMINAL_MBIT),
    "loss 1%": lambda hosts, name: lose(hosts, name, 1),
}


def hunt(hosts: Hosts, home: Path, size: str) -> dict[str, Any]:
    """One hunt: what it concluded, and how long it took."""
    words = ["isolate", "--on", "hosts", "--hosts", ",".join(hosts.names), "--ranks-per-node", "1"]
    words += ["--backend", "mpi", "--rank-wait", "sleep", "-b", size, "--format", "json", "--no-preflight"]
    start_s = time.monotonic()
    command = hosts.command(hosts.names[0], [sys.executable, "-m", "busbw", *words])
    done = completed(command, clean_environ(BUSBW_HOME=str(home)), 300)
    return concluded(done, time.monotonic() - start_s)


def concluded(done: subprocess.CompletedProcess[str], took_s: float) -> dict[str, Any]:
    """What a hunt that printed JSON found; of one that failed, its last words."""
    if done.returncode not in (0, 1, 3):
        return {"code": done.returncode, "error": done.stderr[-500:], "seconds": took_s}
    (field,) = json.loads(done.stdout)["hunt"]["fields"]
    named = [suspect["names"] for suspect in field["suspects"]]
    return {
        "code": done.returncode,
        "named": [names[0] for names in named if len(names) == 1],
        "paths": [names for names in named if len(names) > 1],
        "first": field["ranking"][0]["name"] if field["ranking"] else "",
        "open": [suspect["names"] for suspect in field["open"]],
        "losses": [(each["metric"], round(each["loss"], 4)) for each in field["suspects"]],
        "noise": {metric: round(sigma, 4) for metric, sigma in field["noise"].items()},
        "reason": field["reason"],
        "rounds": field["rounds"],
        "hunt_seconds": field["seconds"],
        "seconds": round(took_s, 2),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hunts", type=int, default=50, help="of each fault, interleaved")
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--size", default="512K")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--load", type=int, default=0, help="processes that burn a core meanwhile")
    options = parser.parse_args()
    generator, start_s = random.Random(options.seed), time.monotonic()
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
    with tempfile.TemporaryDirectory() as folder, Hosts(Path(folder), options.hosts) as hosts:
        if why := why_no_shaping(hosts):
            raise SystemExit(why)
        for _ in range(options.hunts):
            for fault in generator.sample(options.faults, len(options.faults)):
                if time.monotonic() - start_s > options.seconds:
                    break
                place = generator.choice(hosts.names) if fault != "none" else ""
                for name in hosts.names:
                    clear(hosts, name)
                    send_at(hosts, name)
                if place:
                    FAULTS[fault](hosts, place)
                found = {"fault": fault, "place": place, **hunt(hosts, Path(folder) / "runs", options.size)}
                rows[fault].append(found)
                print(json.dumps(found), file=sys.stderr, flush=True)
    for burner in burners:
        burner.kill()
        burner.wait()
    report(rows)


def report(rows: dict[str, list[dict[str, Any]]]) -> None:
    heads = ["fault", "hunts", "named", "ranked first", "healthy accused", "undecided", "failed", "rounds"]
    print(f"| {' | '.join([*heads, 'hunt s', 'command s'])} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for fault, hunts in rows.items():
        ran = [each for each in hunts if "named" in each]
        right = sum(each["place"] in each["named"] for each in ran if each["place"])
        first = sum(each["place"] in (each["first"], *each["named"][:1]) for each in ran if each["place"])
        wrong = sum(bool(set(each["named"]) - {each["place"]}) or bool(each["paths"]) for each in ran)
        undecided = sum(each["code"] == 3 for each in ran)
        middle = [
            sorted(each[key] for each in ran)[len(ran) // 2] for key in ("rounds", "hunt_seconds", "seconds")
        ]
        planted = (right, first) if fault != "none" else ("", "")
        cells = [len(hunts), *planted, wrong, undecided, len(hunts) - len(ran), *middle]
        print(f"| {fault} | {' | '.join(map(str, cells))} |")
    healthy = [each for each in rows.get("none", ()) if "named" in each]
    if healthy and not any(each["named"] for each in healthy):
        bound = 1 - 0.05 ** (1 / len(healthy))
        print(f"\nNobody accused in {len(healthy)} fault-free hunts: a rate below {bound:.1%} (95 %).")


if __name__ == "__main__":
    main()
