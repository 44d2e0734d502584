"""From a run's record to conclusions: is it expected, were all links used, which algorithm, how steady, are
all ranks the same.
"""
