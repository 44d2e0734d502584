"""nccom-test: tables and JSON in and out, the front door `busbw nccom-test`, and the vendor tool."""
