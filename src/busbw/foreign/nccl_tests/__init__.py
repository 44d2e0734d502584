"""nccl-tests and rccl-tests: logs and JSON in, tables out, and the front door `busbw nccl-tests`."""
