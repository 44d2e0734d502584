"""Measured curves to hold a run against, as data: what was measured, where, with which versions, by whom."""
