"""Site presets: YAML files of settings, and how a preset is found, read and checked."""
