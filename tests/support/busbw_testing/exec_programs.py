"""Programs that know nothing of busbw, for ``busbw exec``; each is the text of ``python -c``."""

from __future__ import annotations

# One line: the host, its host file, and what a launcher like torchrun is given.
FACTS = """
import os, socket
lines = open(os.environ["BUSBW_HOSTFILE"]).read().splitlines()
names = ("BUSBW_NODES", "BUSBW_NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
print(socket.gethostname(), "/".join(lines), *(os.environ[name] for name in names), sep="|")
"""

MPI = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"rank {world.rank} of {world.size} on {socket.gethostname()}: sum {total}")
"""

# As torchrun's static rendezvous does: node 0 listens at the master's address, the others say their number.
MEET = """
import os, socket, time
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
nodes, number = int(os.environ["BUSBW_NODES"]), int(os.environ["BUSBW_NODE_RANK"])
if number == 0:
    server = socket.create_server(place)
    print("met", *sorted(server.accept()[0].recv(9).decode() for _ in range(nodes - 1)))
else:
    for _ in range(300):
        try:
            socket.create_connection(place).sendall(str(number).encode())
            break
        except OSError:
            time.sleep(0.1)
"""


def facts_of(text: str) -> list[tuple[str, ...]]:
    """What FACTS printed, sorted; mpirun may have warned of something beside."""
    return sorted(tuple(line.split("|")) for line in text.splitlines() if "|" in line)
