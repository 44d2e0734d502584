"""Foreign logs to records: the text of other tools becomes what ``busbw run`` would have written.

The way of a log: ``lines`` (bytes to lines without what launchers put before them), ``scan`` (to tables; JSON
and CSV become tables by ``entries``), the tool's own ``read.py`` (to rows with a meaning: ``table``),
``check`` (leaves damaged rows out), ``decide`` (operation and ranks, solved if the log does not state
them), ``whole`` (what is missing), ``cases`` and ``assemble`` (the record). No module here knows a tool:
``foreign/read_any.py`` has them all.
"""
