"""What is checked before anything is measured: facts of every rank, and pure rules that judge them."""
