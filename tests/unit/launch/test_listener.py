"""What is gathered of a launch while it goes on."""

from __future__ import annotations

from busbw.launch.observed import Listener
from busbw.model.event import EventKind, event


def test_last_words_are_those_before_the_launch_is_ended() -> None:
    heard = Listener(print)
    heard.output += ["1", "2", "", "3", "4", "5", "6"]
    heard.run_out_of_time(3.0)
    heard.output.append("what its launcher says of being ended")
    story = heard.story
    assert (story.out_of_time_s, story.last_words) == (3.0, ("2", "3", "4", "5", "6"))


def test_ranks_are_connected_with_the_header() -> None:
    heard = Listener(print)
    assert not heard.story.connected
    heard.hear(event(EventKind.HEADER, world={"ranks": [{"rank": 0, "host": "h1"}]}))
    heard.hear(event(EventKind.CASE, result={}))
    story = heard.story
    assert (story.connected, story.places, story.finished) == (True, {0: "h1"}, 1)
