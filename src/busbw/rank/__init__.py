"""What runs on every rank. Lean: numpy, mpi4py or zmq where used, and our own modules."""
