"""The native core and the ctypes bindings of foreign libraries. Imported only by backends and probes."""
