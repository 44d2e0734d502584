"""The channel's ZeroMQ sockets: addresses, ports, encryption and heartbeats."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import itertools
import random
import resource
import socket as dns
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

from busbw.errors import SiteError
from busbw.rank.world.rendezvous import candidate_ports, server_secret

if TYPE_CHECKING:
    from busbw.rank.world.identity import Identity


@dataclass(frozen=True, slots=True)
class Timing:
    """The channel's waiting times. A silent host is reported after at most the sum of the two heartbeat
    times: later than the watcher of its host reports a rank that was stopped. An interval of 0: never.
    """

    connect_s: float = 60.0
    heartbeat_interval_s: float = 1.0
    heartbeat_timeout_s: float = 10.0
    # How long rank 0 lets the others confirm that they read the cause before it may leave itself.
    tell_s: float = 0.5
    leave_s: float = 10.0
    linger_s: float = 2.0


Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]

_EVENT = struct.Struct("=HI")


@dataclass(frozen=True, slots=True)
class Connection:
    """A socket and the one that reports its connections' ends."""

    socket: Socket
    monitor: Socket

    def next_event(self, timeout_ms: int = 0) -> tuple[int, int] | None:
        """The next monitor event and its value (a descriptor, for a lost connection); None if none comes."""
        if not self.monitor.poll(timeout_ms):
            return None
        # zmq_socket_monitor(3): a 16 bit event and a 32 bit value, then the address. zmq.utils.monitor would
        # import asyncio into every rank.
        event, value = _EVENT.unpack(self.monitor.recv_multipart()[0])
        return event, value

    def close(self, linger_s: float = 0.0) -> None:
        """Close both; what is still queued may take ``linger_s`` to be sent."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=int(linger_s * 1000))


# Rank 0 sees all ranks knock at once; the kernel caps this at net.core.somaxconn.
_BACKLOG = 4096
# How long a port may take to prove that our rank 0 listens there, before the next candidate is tried.
_ATTEMPT_S = 2.0
# Between rounds of knocking: rank 0 is mostly some milliseconds late, and may be late by minutes.
_FIRST_RETRY_S, _RETRY_S = 0.005, 0.2


def listen(context: Context, identity: Identity, size: int, timing: Timing) -> Connection:
    """Rank 0's bound ROUTER. Raises ``SiteError`` where no candidate port is free."""
    _allow_descriptors(size)
    router = context.socket(zmq.ROUTER)
    _configure(router, timing)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.BACKLOG, _BACKLOG)
    router.setsockopt(zmq.CURVE_SERVER, 1)
    router.setsockopt(zmq.CURVE_SECRETKEY, z85.encode(server_secret(identity.token)))
    connection = Connection(router, router.get_monitor_socket(zmq.EVENT_DISCONNECTED))
    try:
        _bind(router, identity, size)
    except SiteError:
        connection.close()
        raise
    return connection


def _bind(router: Socket, identity: Identity, size: int) -> None:
    ports = candidate_ports(identity.token, identity.root_port)
    for address in _listening_addresses(identity, size):
        for port in ports:
            try:
                router.bind(_endpoint(address, port))
            except zmq.ZMQError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                if error.errno in {errno.EADDRNOTAVAIL, errno.ENODEV}:
                    break
                raise SiteError(f"cannot listen at {_endpoint(address, port)}: {error.strerror}") from error
            return
    raise SiteError(
        f"rank 0 cannot listen at {identity.root_host}: port {', '.join(map(str, ports))} in use",
        hint="set BUSBW_ROOT=host:port with a free port, the same for every rank",
    )


def _listening_addresses(identity: Identity, size: int) -> list[str]:
    """The root address and nothing else; all of this host's where that cannot be.

    Not this host's (a service address that is forwarded to it), not known yet to the name service, or
    loopback though other hosts take part (Debian's /etc/hosts gives a host's own name as 127.0.1.1): there
    only the key keeps strangers out.
    """
    try:
        address = resolve(identity.root_host)
    except OSError:
        return ["*"]
    others_elsewhere = identity.local_size is not None and identity.local_size < size
    if ipaddress.ip_address(address).is_loopback:
        return ["*"] if others_elsewhere else [address]
    return [address, "*"]


def resolve(host: str) -> str:
    """One numeric address of ``host``, IPv4 first. OSError where the name is not known (yet)."""
    found = dns.getaddrinfo(host, None, type=dns.SOCK_STREAM)
    found.sort(key=lambda entry: entry[0] != dns.AF_INET)
    return str(found[0][4][0])


def join(context: Context, identity: Identity, rank_name: str, timing: Timing) -> Connection:
    """A DEALER that has shaken hands with rank 0.

    The ports are tried in turn until the connect time is over: rank 0 may come later, and another job may
    have one of its ports. Raises ``SiteError`` saying what was met.
    """
    ports = candidate_ports(identity.token, identity.root_port)
    deadline = time.monotonic() + timing.connect_s
    met, pause_s = _NOBODY, _FIRST_RETRY_S
    for port in itertools.cycle(ports):
        found = _attempt(context, identity, port, timing)
        if isinstance(found, Connection):
            return found
        # A refusal at one candidate says more than "nobody" at the others.
        met = met if found == _NOBODY else found
        if time.monotonic() >= deadline:
            where = f"{identity.root_host}, port {', '.join(map(str, ports))}"
            raise SiteError(
                f"{rank_name} could not reach rank 0 at {where}, within {timing.connect_s:g} s: {met}",
                hint="set BUSBW_ROOT=host:port to an address of rank 0's host that every host can reach",
            )
        if port == ports[-1]:
            # Thousands of ranks must not knock in step.
            time.sleep(pause_s * random.uniform(0.5, 1.5))
            pause_s = min(_RETRY_S, 2 * pause_s)
    raise AssertionError("a cycle does not end")


_NOBODY = "nothing listens there, or there is no route to it"
_STRANGER = "something listens there that does not know this job's token (BUSBW_TOKEN)"
_SILENT = f"no answer within {_ATTEMPT_S:g} s"
_OUTCOMES: dict[int, str] = {
    zmq.EVENT_CLOSED: _NOBODY,
    zmq.EVENT_CONNECT_RETRIED: _NOBODY,
    zmq.EVENT_DISCONNECTED: _STRANGER,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: _STRANGER,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: _STRANGER,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: _STRANGER,
}


def _attempt(context: Context, identity: Identity, port: int, timing: Timing) -> Connection | str:
    """Knock at one port: the connection after a completed handshake, else what was met."""
    try:
        endpoint = _endpoint(resolve(identity.root_host), port)
    except OSError as error:
        return f"the name does not resolve: {error.strerror}"
    connection = _dealer(context, identity.token, timing)
    connection.socket.connect(endpoint)
    deadline = time.monotonic() + _ATTEMPT_S
    while event := connection.next_event(max(0, int((deadline - time.monotonic()) * 1000))):
        if event[0] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            return connection
        if event[0] in _OUTCOMES:
            connection.close()
            return _OUTCOMES[event[0]]
    connection.close()
    return _SILENT


def _dealer(context: Context, token: str, timing: Timing) -> Connection:
    dealer = context.socket(zmq.DEALER)
    _configure(dealer, timing)
    # A lost connection is a lost rank: ZeroMQ must not mend it silently.
    dealer.setsockopt(zmq.RECONNECT_IVL, -1)
    dealer.setsockopt(zmq.CURVE_SERVERKEY, zmq.curve_public(z85.encode(server_secret(token))))
    public, secret = zmq.curve_keypair()
    dealer.setsockopt(zmq.CURVE_PUBLICKEY, public)
    dealer.setsockopt(zmq.CURVE_SECRETKEY, secret)
    return Connection(dealer, dealer.get_monitor_socket(zmq.EVENT_ALL))


def _configure(socket: Socket, timing: Timing) -> None:
    interval_ms, timeout_ms = (
        int(s * 1000) for s in (timing.heartbeat_interval_s, timing.heartbeat_timeout_s)
    )
    for nothing in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
        socket.setsockopt(nothing, 0)
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.HEARTBEAT_IVL, interval_ms)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, timeout_ms)


def _endpoint(address: str, port: int) -> str:
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def _allow_descriptors(size: int) -> None:
    """Each rank costs rank 0 a descriptor, and the usual soft limit is 1024; the hard one needs no rights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * size + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
