"""Container images: recipes and versions as data, the commands that build, push and squash them."""
