"""What loopback allows: one TCP connection between two processes that do nothing with the bytes."""

from __future__ import annotations

import multiprocessing
import socket
import time

from tools.peers.ports import LOOPBACK

READ_BYTES = 256 * 1024


def bytes_a_second(total_bytes: int, write_bytes: int) -> float:
    """From the first write of so many bytes to the answer that all have come."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        reader = multiprocessing.get_context("fork").Process(target=_read_all, args=(listener,))
        reader.start()
        try:
            return _write_all(listener.getsockname(), total_bytes, write_bytes)
        finally:
            reader.join()


def _read_all(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    buffer = bytearray(READ_BYTES)
    with connection:
        while connection.recv_into(buffer):
            pass
        connection.sendall(b"!")


def _write_all(address: tuple[str, int], total_bytes: int, write_bytes: int) -> float:
    piece = bytes(write_bytes)
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        for _ in range(max(1, total_bytes // write_bytes)):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        seconds = time.perf_counter() - begun
    return max(total_bytes, write_bytes) / seconds
