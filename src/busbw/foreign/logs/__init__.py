"""Foreign logs to records: the text of other tools becomes what ``busbw run`` would have written.

The way of a log: ``lines`` (bytes to lines without what launchers put before them), ``scan`` (finds tables;
JSON and CSV become tables by ``entries``). Then one ``table`` goes from hand to hand: the tool's own
``read.py`` gives its rows a meaning, ``check`` leaves damaged ones out, ``whole`` says what is missing,
``decide`` has operation and ranks, solved if the log does not state them; ``cases`` and ``assemble`` make the
record. No module here knows a tool: ``foreign/read_any.py`` has them all.
"""
