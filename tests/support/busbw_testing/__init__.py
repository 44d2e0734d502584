"""What several tests need: pytest puts this folder on the path (``pythonpath`` in pyproject.toml)."""
