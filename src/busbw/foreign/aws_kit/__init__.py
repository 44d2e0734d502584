"""The CSV forms of the AWS kit."""
