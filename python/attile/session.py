"""Sessions: one open device each. Most programs do not open their own: `session_for` keeps one for each device."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from . import errors
from ._library import DEVICES, HOST_MODES, Counters, Options, SessionInfo, library
from ._nvrtc import preload
from ._problem import Problem

if TYPE_CHECKING:
    from .kernel import Kernel


class Described(NamedTuple):
    """The device, compiler and cache of a session."""

    device: str  # "cuda" or "host"
    device_name: str
    arch: str  # "sm_90a", or "host"
    multiprocessors: int
    compiler: str  # name and version, or why there is none
    cache_dir: str | None  # None: in memory only


class Moved(NamedTuple):
    """Bytes that launches on the host device moved, and the passes of ldmatrix beyond the minimum."""

    global_read: int
    global_written: int
    shared_read: int
    shared_written: int
    shared_conflicts: int


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


class Session:
    """One open device; its kernels live as long as the session.

    device: "auto" (a GPU, else this CPU), "cuda" or "host". ordinal: which GPU.
    cache_dir: where compiled kernels are kept; None = as docs/cache.md says, "" = nowhere.
    host_mode: "fast", or "check", which checks and counts every access and requires tensors in memory from `alloc`;
    ignored on cuda.
    Raises NoDevice without a GPU, FileFailed if the cache cannot be used.
    Several threads may use a session at once, except for `close`.
    """

    def __init__(
        self, device: str = "auto", *, ordinal: int = 0, cache_dir: str | None = None, host_mode: str = "fast",
        host_seed: int = 0, template_dir: str | None = None, tuned_table: str | None = None,
    ) -> None:  # fmt: skip
        self.handle: int | None = None
        for word, words, name in ((device, DEVICES, "device"), (host_mode, HOST_MODES, "host_mode")):
            if word not in words:
                raise errors.InvalidArgument(f"{name} is {word!r}, expected one of {', '.join(words)}")
        if device != "host":
            preload()
        options = Options(
            size=ctypes.sizeof(Options), device=DEVICES[device], ordinal=ordinal, cache_dir=_bytes(cache_dir) or None,
            no_disk_cache=cache_dir == "", host_mode=HOST_MODES[host_mode], host_seed=host_seed,
            template_dir=_bytes(template_dir), tuned_table=_bytes(tuned_table),
        )  # fmt: skip
        handle = ctypes.c_void_p()
        status = library.att_open(ctypes.byref(options), ctypes.byref(handle))
        self.handle = handle.value
        self.check(status)
        self.device = self.info.device  # "cuda" or "host"
        self.ordinal = ordinal

    def check(self, status: int) -> None:
        """Raises the exception of a status, with the library's full message; does nothing for 0."""
        if status:
            message = library.att_message(self.handle) if self.handle else library.att_status_name(status)
            raise errors.BY_STATUS[status](message.decode(errors="replace"))

    @property
    def info(self) -> Described:
        """The device, compiler and cache of this session."""
        found = SessionInfo(size=ctypes.sizeof(SessionInfo))
        self.check(library.att_session_describe(self.handle, ctypes.byref(found)))
        device = next(word for word, value in DEVICES.items() if value == found.device)
        cache = found.cache_dir and os.fsdecode(found.cache_dir)
        return Described(device, found.device_name.decode(), found.arch.decode(), found.multiprocessors,
                         found.compiler.decode(), cache)  # fmt: skip

    def counters(self, reset: bool = False) -> Moved:
        """The bytes that launches on the host device moved since the session opened, or since the last reset."""
        found = Counters(size=ctypes.sizeof(Counters))
        self.check(library.att_counters_read(self.handle, ctypes.byref(found), reset))
        return Moved(
            found.global_read, found.global_written, found.shared_read, found.shared_written, found.shared_conflicts
        )

    def find(self, problem: str, schedule: str | None = None) -> int:
        """Returns the handle of the kernel for a problem, compiled and loaded; the session owns it."""
        handle = ctypes.c_void_p()
        self.check(
            library.att_find(self.handle, problem.encode(), schedule.encode() if schedule else None,
                             ctypes.byref(handle))
        )  # fmt: skip
        self.check(library.att_prepare(handle))
        assert handle.value is not None
        return handle.value

    def compile(self, problem: Problem, schedule: str | None = None) -> Kernel:
        """Returns the kernel for a problem in this session; see attile.compile."""
        return _compiler(problem, schedule, self)

    def explain(self, problem: str, schedule: str | None = None) -> str:
        """Tells which variant solves a problem and why, knob by knob. Raises Unsupported, with reasons, if none."""
        needed = ctypes.c_size_t(4096)
        while True:
            room = ctypes.create_string_buffer(needed.value)
            status = library.att_explain(
                self.handle, problem.encode(), schedule.encode() if schedule else None, room, len(room),
                ctypes.byref(needed),
            )  # fmt: skip
            self.check(status)
            if needed.value <= len(room):
                return room.value.decode()

    def alloc(self, size: int) -> int:
        """Allocates `size` bytes of device memory, 256-byte aligned, until `free` or `close`; returns the address."""
        address = ctypes.c_void_p()
        self.check(library.att_alloc(self.handle, size, ctypes.byref(address)))
        return address.value or 0

    def free(self, address: int) -> None:
        """Frees memory from `alloc`."""
        self.check(library.att_free(self.handle, address))

    def synchronize(self) -> None:
        """Waits for all work on the device; raises LaunchFailed for faults of earlier launches."""
        self.check(library.att_synchronize(self.handle))

    def close(self) -> None:
        """Releases everything that the session holds. Its kernels must not be used any more."""
        if self.handle:
            library.att_close(self.handle)
        self.handle = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_compiler: Callable[[Problem, str | None, Session], Kernel]


def compile_by(compiler: Callable[[Problem, str | None, Session], Kernel]) -> None:
    """Sets the function that `Session.compile` calls. attile.kernel sets it, since kernels need sessions."""
    global _compiler
    _compiler = compiler


_sessions: dict[tuple[str, int], Session] = {}
_lock = threading.Lock()


def session_for(device: str = "auto", ordinal: int = 0) -> Session:
    """Returns the session that this process keeps for a device; the first call opens it."""
    found = _sessions.get((device, ordinal))
    if found is None:
        with _lock:
            found = _sessions.get((device, ordinal))
            if found is None:
                found = _sessions[device, ordinal] = Session(device, ordinal=ordinal)
    return found


_forgetters = [_sessions.clear]


def at_fork_forget(forget: object) -> None:
    """Registers `forget` to be called in the child of a fork, where handles of the parent's sessions are useless."""
    _forgetters.append(forget)  # type: ignore[arg-type]


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent, missing in the child, may hold the old lock
    for forget in _forgetters:
        forget()


os.register_at_fork(after_in_child=_in_child)
