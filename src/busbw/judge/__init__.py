"""Records to answers: a run as frames for a notebook, its ranks beside each other, how its times spread."""
