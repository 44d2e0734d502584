"""The command line: arguments to settings, results to exit codes. One file a command."""
