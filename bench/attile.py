"""attile from Python, with nothing but ctypes: the structs of runtime/attile.h, and tensors by their data_ptr().

    session = Session()
    kernel = session.find("family=attention_forward dtype=fp32 head_dim=64 mask=causal")
    kernel.attention(q, k, v, o, stream=torch.cuda.current_stream().cuda_stream)

Tensors are (batch, heads, length, head_dim) in any layout whose last dimension is contiguous: anything with data_ptr(),
shape and stride() in elements will do. The library is $ATTILE_LIBRARY, else build/release/runtime/libattile.so.
"""
import ctypes
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

_DEFAULT = pathlib.Path(__file__).parents[1] / "build/release/runtime/libattile.so"
_library = ctypes.CDLL(os.environ.get("ATTILE_LIBRARY", str(_DEFAULT)))


class _Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", c_int), ("ordinal", c_int), ("cache_dir", c_char_p), ("no_disk_cache", c_int),
                ("cache_limit", c_uint64), ("template_dir", c_char_p), ("tuned_table", c_char_p),
                ("bundles", c_void_p), ("host_mode", c_int),
                ("host_seed", c_uint64), ("log", c_void_p), ("log_context", c_void_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("batch_stride", c_int64), ("head_stride", c_int64), ("row_stride", c_int64)]

    @classmethod
    def of(cls, tensor):
        batch, head, row, last = tensor.stride()
        if last != 1 and tensor.shape[-1] != 1:
            raise ValueError(f"the last dimension must be contiguous; its stride is {last}")
        return cls(tensor.data_ptr(), batch, head, row)


class _Param(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("number", c_double), ("data", c_void_p), ("size", c_int64 * 4),
                ("stride", c_int64 * 4)]

    TYPES = {"bool": 1, "int32": 2, "float32": 3, "float16": 4, "bfloat16": 5}

    @classmethod
    def of(cls, name, value):
        """A number, or a tensor with data_ptr(), shape, stride() and dtype."""
        if not hasattr(value, "data_ptr"):
            kind = {bool: "bool", int: "int32"}.get(type(value), "float32")
            return cls(name.encode(), cls.TYPES[kind], value)
        param = cls(name.encode(), cls.TYPES[str(value.dtype).removeprefix("torch.")], 0, value.data_ptr())
        for i, (size, stride) in enumerate(zip(value.shape, value.stride())):
            param.size[i], param.stride[i] = size, stride
        return param


class _Attention(ctypes.Structure):
    _fields_ = [("q", _Tensor), ("k", _Tensor), ("v", _Tensor), ("o", _Tensor), ("lse", c_void_p),
                ("lse_batch_stride", c_int64), ("lse_head_stride", c_int64), ("batch", c_int64), ("heads", c_int64),
                ("kv_heads", c_int64), ("len_q", c_int64), ("len_kv", c_int64), ("scale", c_float),
                ("param_count", c_int), ("params", POINTER(_Param))]


class _Merge(ctypes.Structure):  # here for the size of the union
    _fields_ = [("o_parts", _Tensor), ("o_parts_part_stride", c_int64), ("lse_parts", c_void_p),
                ("lse_parts_part_stride", c_int64), ("lse_parts_batch_stride", c_int64),
                ("lse_parts_head_stride", c_int64), ("o", _Tensor), ("lse", c_void_p), ("lse_batch_stride", c_int64),
                ("lse_head_stride", c_int64), ("parts", c_int64), ("batch", c_int64), ("heads", c_int64),
                ("len_q", c_int64)]


class _Member(ctypes.Union):
    _fields_ = [("attention", _Attention), ("merge", _Merge)]


_ATTENTION_FORWARD = 2  # of enum att_family


class _Args(ctypes.Structure):
    _anonymous_ = ["member"]
    _fields_ = [("size", c_size_t), ("family", c_int), ("workspace_size", c_size_t), ("workspace", c_void_p),
                ("member", _Member)]


class KernelInfo(ctypes.Structure):
    """What the compiler made of a kernel; struct att_kernel_info."""
    _fields_ = [("size", c_size_t), ("registers", c_int), ("spill_bytes", c_int), ("shared_bytes", c_int),
                ("threads", c_int), ("launches", c_int), ("instructions", c_int), ("binary_size", c_uint64),
                ("compile_seconds", c_double),
                ("compiler_seconds", c_double), ("origin", c_char_p)]


class SessionInfo(ctypes.Structure):
    """What a session runs on; struct att_session_info."""
    _fields_ = [("size", c_size_t), ("device", c_int), ("multiprocessors", c_int), ("device_name", c_char_p),
                ("arch", c_char_p), ("compiler", c_char_p), ("cache_dir", c_char_p)]


_library.att_message.restype = c_char_p
_library.att_message.argtypes = [c_void_p]
_library.att_open.argtypes = [POINTER(_Options), POINTER(c_void_p)]
_library.att_close.argtypes = [c_void_p]
_library.att_session_describe.argtypes = [c_void_p, POINTER(SessionInfo)]
_library.att_find.argtypes = [c_void_p, c_char_p, c_char_p, POINTER(c_void_p)]
_library.att_prepare.argtypes = [c_void_p]
_library.att_kernel_name.restype = c_char_p
_library.att_kernel_name.argtypes = [c_void_p]
_library.att_kernel_describe.argtypes = [c_void_p, POINTER(KernelInfo)]
_library.att_workspace_size.argtypes = [c_void_p, POINTER(_Args), POINTER(c_size_t)]
_library.att_launch.argtypes = [c_void_p, POINTER(_Args), c_void_p]
_library.att_alloc.argtypes = [c_void_p, c_size_t, POINTER(c_void_p)]
_library.att_version.restype = c_char_p


class Error(RuntimeError):
    """What att_message says."""


def version():
    return _library.att_version().decode()


class Session:
    """One open device. Close it, or let it go: kernels found in it live as long as it does."""

    def __init__(self, device="cuda", cache_dir=None, host_mode="check"):
        options = _Options(size=ctypes.sizeof(_Options), device={"auto": 0, "cuda": 1, "host": 2}[device], cache_dir=cache_dir and cache_dir.encode(),
                           host_mode={"check": 0, "fast": 1}[host_mode])
        self._handle = c_void_p()
        self.check(_library.att_open(byref(options), byref(self._handle)))

    def check(self, status):
        if status:
            raise Error(_library.att_message(self._handle).decode())

    @property
    def info(self):
        info = SessionInfo(size=ctypes.sizeof(SessionInfo))
        self.check(_library.att_session_describe(self._handle, byref(info)))
        return info

    def find(self, problem, schedule=None):
        handle = c_void_p()
        self.check(_library.att_find(self._handle, problem.encode(), schedule and schedule.encode(), byref(handle)))
        return Kernel(self, handle)

    def alloc(self, size):
        """The address of that many bytes of device memory, 256-byte aligned, which live as long as the session."""
        address = c_void_p()
        self.check(_library.att_alloc(self._handle, size, byref(address)))
        return address.value

    def close(self):
        _library.att_close(self._handle)
        self._handle = None

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


class Kernel:
    """A kernel of a session, compiled and loaded."""

    def __init__(self, session, handle):
        self._session, self._handle = session, handle
        session.check(_library.att_prepare(handle))

    @property
    def name(self):
        return _library.att_kernel_name(self._handle).decode()

    @property
    def info(self):
        info = KernelInfo(size=ctypes.sizeof(KernelInfo))
        self._session.check(_library.att_kernel_describe(self._handle, byref(info)))
        return info

    def attention_args(self, q, k, v, o, lse=None, scale=0.0, params=None):
        """The arguments of `launch`, for a caller that launches often with the same tensors.

        params: {name: number or tensor}, what the problem's mask and score declare.
        """
        batch, heads, len_q, head_dim = q.shape
        expected = {"k": (batch, k.shape[1], k.shape[2], head_dim), "v": (*k.shape[:3], v.shape[3]),
                    "o": (batch, heads, len_q, v.shape[3])}
        for name, tensor in (("k", k), ("v", v), ("o", o)):
            if tuple(tensor.shape) != expected[name]:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {expected[name]} beside the others")
        args = _Args(size=ctypes.sizeof(_Args), family=_ATTENTION_FORWARD)
        args.attention = _Attention(_Tensor.of(q), _Tensor.of(k), _Tensor.of(v), _Tensor.of(o),
                                    lse.data_ptr() if lse is not None else None, 0, 0, batch, heads, k.shape[1], len_q,
                                    k.shape[2], scale)
        if params:
            args.kept = (_Param * len(params))(*(_Param.of(name, value) for name, value in params.items()))
            args.attention.params, args.attention.param_count = args.kept, len(params)
        return args

    def workspace_size(self, args):
        size = c_size_t()
        self._session.check(_library.att_workspace_size(self._handle, byref(args), byref(size)))
        return size.value

    def launch(self, args, stream=0):
        self._session.check(_library.att_launch(self._handle, byref(args), stream))

    def attention(self, q, k, v, o, lse=None, scale=0.0, params=None, stream=0):
        """o = softmax(scale q k^T) v, asynchronously; for kernels that need no workspace."""
        self.launch(self.attention_args(q, k, v, o, lse, scale, params), stream)
