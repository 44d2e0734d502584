"""Foreign logs to records: the text of other tools becomes what ``busbw run`` would have written.

``scan`` cuts a text into tables, one module per format says what their columns mean, ``check`` finds rows
that contradict themselves, ``solve`` finds out what a log does not say, ``assemble`` makes the record.
"""
