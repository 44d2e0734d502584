"""Readers of the machine: what it is, what would be measured, and why a backend is not usable.

Each module reads one part and returns frozen dataclasses of plain values (``dataclasses.asdict`` gives JSON).
Roots such as ``sysfs`` and ``proc`` are arguments, so that a folder tree can stand for a machine. Absence is
data, never an error; only :mod:`busbw.machine.backends` decides what absence means.
"""
