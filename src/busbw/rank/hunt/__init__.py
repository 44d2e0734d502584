"""What ranks do for `busbw isolate`: pair tests in rounds."""
