"""What is gathered of a launch while it goes on."""

from __future__ import annotations

import json
from pathlib import Path

from busbw.launch import here
from busbw.launch.listener import Listener
from busbw.launch.verdict import Story
from busbw.model.event import Event, EventKind, event


def test_a_process_id_of_several_hosts_names_nobody() -> None:
    heard = Listener()
    for pid, rank, host in ((7, 0, "h1"), (8, 1, "h1"), (7, 2, "h2"), (7, 3, "h3")):
        heard.hear(event(EventKind.HELLO, pid=pid, rank=rank, host=host))
    assert heard.story().hello == {8: (1, "h1")}


def test_last_words_are_those_before_the_launch_is_ended() -> None:
    heard = Listener()
    heard.output += ["1", "2", "", "3", "4", "5", "6"]
    heard.run_out_of_time(3.0)
    heard.output.append("what its launcher says of being ended")
    story = heard.story()
    assert (story.out_of_time_s, story.last_words) == (3.0, ("2", "3", "4", "5", "6"))


def test_ranks_are_connected_with_the_header() -> None:
    heard = Listener()
    assert not heard.connected
    heard.hear(event(EventKind.HEADER, world={"ranks": [{"rank": 0, "host": "h1"}]}))
    heard.hear(event(EventKind.CASE, result={}))
    story = heard.story()
    assert (story.connected, story.places, story.finished) == (True, {0: "h1"}, 1)


def test_cases_whose_events_were_lost_are_shown_from_the_record(tmp_path: Path) -> None:
    """A process between the ranks and here was killed: the ranks had written what they measured."""
    results = [{"case": 0, "status": "good", "error": ""}, {"case": 1, "status": "good", "error": ""}]
    results.append({"case": 2, "status": "not-run", "error": ""})
    (tmp_path / "run.json").write_text(json.dumps({"results": results}))
    shown: list[Event] = []
    here._show_unheard(tmp_path, Story(connected=True, finished=1), shown.append)
    assert [(item["event"], item["result"]["case"]) for item in shown] == [(EventKind.CASE, 1)]
    shown.clear()
    here._show_unheard(tmp_path, Story(connected=False), shown.append)
    assert shown == []
