"""Exceptions: one class for each status of the library, and below them one for each mistake that Python detects first.

Every message says what was found, what was expected and what to do. docs/errors.md has a section for each status.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Base class of all exceptions of attile."""


class InvalidArgument(Error, ValueError):
    """A pointer, size, stride or option that cannot be right. Nothing was started."""


class InvalidText(Error, ValueError):
    """A problem, schedule or expression that cannot be read; the message has a caret."""


class Unsupported(Error):
    """No kernel supports this; the message names the constraint that failed."""


class NoDevice(Error):
    """No usable GPU or driver."""


class NoCompiler(Error):
    """NVRTC (cuda) or a C++ compiler (host) was not found."""


class CompileFailed(Error):
    """The compiler refused a generated source; its log is in the message."""


class NotPrepared(Error):
    """A launch during graph capture of a kernel that was not loaded before."""


class LaunchFailed(Error):
    """The device refused the launch or faulted; on the host device, a check found an error."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""


class FileFailed(Error, OSError):
    """A file could not be read or written."""


class Forked(Error):
    """The process forked after the session was opened; open a new one in the child."""


class Internal(Error):
    """A bug in attile; please report the message."""


# In the order of enum att_status; 0 is success.
BY_STATUS: tuple[type[Error], ...] = (
    Error,
    InvalidArgument,
    InvalidText,
    Unsupported,
    NoDevice,
    NoCompiler,
    CompileFailed,
    NotPrepared,
    LaunchFailed,
    OutOfMemory,
    FileFailed,
    Forked,
    Internal,
)


class DtypeError(InvalidArgument, TypeError):
    """An element type that attention does not support, or tensors of different types."""


class ShapeError(InvalidArgument):
    """Sizes that do not fit each other, or too many dimensions."""


class LayoutError(InvalidArgument):
    """An unknown layout, or a tensor whose last dimension is not contiguous."""


class DeviceError(InvalidArgument):
    """Tensors on different devices, or on a device that attile does not know."""


class TensorError(InvalidArgument, TypeError):
    """An object that is not a tensor: it has neither DLPack nor NumPy's array interface."""


class ParameterError(InvalidArgument):
    """A parameter that mask or score declares and the call lacks, or vice versa."""


class NoBackward(Error):
    """A gradient is requested for which there are no kernels."""


class VersionError(Error, ImportError):
    """A PyTorch or transformers that is too old."""


class TraceError(Error, TypeError):
    """A Python mask or score that Attile's expressions cannot express; the message has the operation and its line."""


class CommandFailed(Error):
    """The command line program ended with an error; the message includes its output."""
