"""Tables of the code that answers may use, and of forbidden code with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

# --------------------------------------------------------------------------------------------------
# Modules
# --------------------------------------------------------------------------------------------------

_PROCESS = "which can show and change what the grader sees"
_COURSE = "the course's own answers"
_FILES = "which keeps values in a file"
_LASTING = "which keeps values from call to call"
_THREADS = "where the grader does not see what your code calls"
FORBIDDEN_MODULES: Mapping[str, str] = {
    **dict.fromkeys(
        ("sys", "importlib", "builtins", "gc", "inspect", "ctypes", "cffi", "unittest", "pickle",
         "marshal", "dill", "cloudpickle", "joblib", "code", "codeop", "runpy", "pkgutil", "timeit",
         "doctest", "trace", "traceback", "cProfile", "profile", "signal", "socket", "os", "posix",
         "io", "fcntl", "mmap", "imp", "types", "faulthandler", "pdb", "bdb", "torch._C",
         "torch.utils._pytree", "torch.utils._python_dispatch", "torch.overrides",
         "torch.package", "torch.hub", "torch._functorch", "functorch", "__main__", "submission",
         "autograd_classroom", "autograd_course.engine", "autograd_course.execution",
         "autograd_course.extraction", "autograd_course.grader", "autograd_course.notebook_files",
         "autograd_course.submitted", "torch.get_device_module",
         "torch.utils.rename_privateuse1_backend"),
        _PROCESS,
    ),
    **dict.fromkeys(
        ("numpy.testing.measure", "numpy.testing.rundocs", "numpy.testing.runstring",
         "numpy.testing.TestCase", "numpy.testing.test", "numpy.testing.decorate_methods",
         "enum.global_enum", "string.Formatter", "torch.library.infer_schema", "typing.ForwardRef",
         "torch.jit.CompilationUnit",
         "typing.get_type_hints", "typing_extensions.ForwardRef",
         "typing_extensions.get_annotations",
         "typing_extensions.evaluate_forward_ref", "typing_extensions.get_type_hints", "torch.fx"),
        "which runs code or reads names from strings",
    ),
    **dict.fromkeys(
        ("autograd_course.functions", "autograd_course.exercises", "tools", "solutions",
         "autograd_course.lesson.TritonAttention"), _COURSE,
    ),
    **dict.fromkeys(
        ("numpy.fromfile", "numpy.genfromtxt", "numpy.lib.format", "numpy.lib.npyio",
         "numpy.loadtxt", "numpy.memmap", "numpy.save", "numpy.savetxt", "numpy.savez",
         "numpy.savez_compressed", "torch.from_file", "torch.save", "logging.FileHandler",
         "logging.config", "logging.handlers", "sklearn.datasets.dump_svmlight_file",
         "sklearn.datasets.load_files", "sklearn.datasets.load_svmlight_file",
         "sklearn.datasets.load_svmlight_files"), _FILES,
    ),
    **dict.fromkeys(
        ("logging.addLevelName", "logging.setLogRecordFactory", "logging.setLoggerClass"),
        _LASTING,
    ),
    **dict.fromkeys(
        ("threading", "_thread", "concurrent", "multiprocessing", "subprocess", "asyncio",
         "torch.multiprocessing", "torch.futures", "torch.jit.fork", "numpy.testing.run_threaded"),
        _THREADS,
    ),
}  # fmt: skip
# The parts of these modules that an answer may use. The first line is for older notebooks.
GIVEN = {
    "autograd_course.functions.attention.dropped", "inspect.signature",
    "sys.stderr", "sys.stderr.write", "sys.stdout", "sys.stdout.write", "sys.stdout.flush",
    "sys.getsizeof", "gc.collect", "gc.disable", "gc.enable", "types.SimpleNamespace",
    "types.EllipsisType", "types.MappingProxyType", "types.NoneType", "types.TracebackType",
    "io.BytesIO", "io.StringIO", "os.environ.get", "os.getenv", "traceback.format_exc",
    "traceback.print_exc", "matplotlib.pyplot.rcParams", "matplotlib.rcParams",
    *(f"torch.utils._pytree.{name}" for name in (
        "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten")),
}  # fmt: skip
# Plain values, so an answer may also use their attributes.
GIVEN_VALUES = ("sys.float_info", "sys.maxsize", "sys.version", "sys.version_info")
# Modules that an answer may import if it uses only the listed parts.
PARTLY_GIVEN = {"sys", "gc", "types", "inspect", "io", "os", "traceback", "torch.utils._pytree"}
# The namespace of the operators that learners register
OWN_OPERATORS = "torch.ops.exercises"
REMARKABLE: Mapping[str, str] = {
    "autograd_course.doctor": "the doctor",
    "autograd_doctor": "the doctor",
    "torch.ops": "PyTorch's own operations by name",
    **dict.fromkeys(
        ("contextlib.ExitStack", "contextlib.AsyncExitStack"),
        "calls that the source does not show",
    ),
    "torch.jit": "compiled code",
    **dict.fromkeys(("torch.load", "torch.export.load", "numpy.load"), "objects from a file"),
    **dict.fromkeys(
        ("dataclasses.make_dataclass", "functools.singledispatch",
         "functools.singledispatchmethod", "functools.update_wrapper"),
        "names that the source does not show",
    ),
    **dict.fromkeys(
        ("torch.library.Library", "torch.library.define", "torch.library.impl",
         "torch.library.register_torch_dispatch", "torch.utils.set_module",
         "torch.utils.swap_tensors"), "PyTorch's own operations and objects",
    ),
}  # fmt: skip
# The modules that answers use. Any other module gets a remark, even inside of one of these.
OPEN_MODULES = {
    "__future__", "abc", "array", "bisect", "cmath", "collections", "collections.abc",
    "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "json", "logging", "math", "numbers", "operator", "pprint", "random",
    "re", "statistics", "string", "textwrap", "time", "typing", "typing_extensions", "warnings",
    "autograd_course", "autograd_course.lesson", "autograd_course.measure", "autograd_course.ship",
    "autograd_course.showing", "autograd_course.doctor",
    "matplotlib", "matplotlib.pyplot", "numpy", "numpy.fft", "numpy.linalg", "numpy.random",
    "numpy.testing", "numpy.typing", "onnx", "onnxruntime", "onnxscript", "scipy",
    "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special",
    "scipy.stats", "sklearn", "sklearn.datasets", "torchvision",
    "torch", "torch.amp", "torch.autograd", "torch.autograd.function", "torch.backends",
    "torch.compiler",
    "torch.cuda", "torch.cuda.amp", "torch.distributions", "torch.export", "torch.fft",
    "torch.library", "torch.linalg", "torch.nn", "torch.nn.functional", "torch.nn.init",
    "torch.nn.utils", "torch.onnx", "torch.optim", "torch.random", "torch.special",
    "torch.backends.cuda", "torch.backends.cudnn", "torch.backends.mps",
    "torch.optim.lr_scheduler", "torch.testing", "torch.utils", "torch.utils.checkpoint",
    "torch.utils.data",
    "torch.func", "torch.autograd.functional", "torch.autograd.graph",
    "torch.autograd.forward_ad", "torch.ao", "torch.ao.quantization",
}  # fmt: skip
# An answer may import several functions of these modules under one name, such as exp.
PLAIN_MODULES = {"math", "cmath", "numpy", "torch", "typing", "typing_extensions"}

# --------------------------------------------------------------------------------------------------
# Names and attributes anywhere in the source
# --------------------------------------------------------------------------------------------------

# Attributes that lead from any object to the rest of the process.
REACHING = {
    "__base__", "__bases__", "__builtins__", "__class__", "__closure__", "__code__", "__dict__",
    "__func__", "__getattribute__", "__globals__", "__import__", "__kwdefaults__", "__defaults__",
    "__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__self__", "__setattr__", "__spec__",
    "__subclasses__", "__traceback__", "__wrapped__", "_C", "_getframe", "ag_frame", "builtins",
    "cr_frame", "f_back", "f_builtins", "f_globals", "f_locals", "gi_frame", "importlib",
    "meta_path", "mro", "settrace", "setprofile", "sys", "tb_frame", "tb_next",
    "_backward_hooks", "_DisableTorchDispatch", "_disable_current_modes", "_execution_engine",
    "_forward_cls", "_functorch", "__dataclass_fields__", "__get__", "__set_name__", "attrname",
    "__annotate__", "__annotations__", "__match_args__", "__getstate__", "__setstate__",
    "__delattr__", "__array_interface__", "__array_struct__", "__cuda_array_interface__",
    "__dlpack__", "_evaluate", "_convert_", "ctypes", "_ctypes", "pythonapi", "os", "gc",
    "inspect", "pickle", "marshal", "subprocess", "threading", "multiprocessing", "unittest",
    "gi_code", "cr_code", "ag_code", "on_generate_code", "recompile",
    "FunctionType", "CodeType", "load_library", "register_custom_ops_library", "ctypeslib",
    # torch.fx writes source code with these names, and runs it
    "call_function", "call_method", "call_module", "create_node", "create_proxy", "get_attr",
    "graph_copy", "graph_module", "inserting_after", "inserting_before", "node_copy",
    "placeholder", "set_codegen", "update_kwarg", "_update_args_kwargs",
}  # fmt: skip
# If code sets these attributes of a node of torch.fx, they become source code that runs.
OF_NODES = {"kwargs", "target"}
ALSO_OF_OTHERS = {"args", "name", "op", "type"}  # count only if code reads nodes
# These functions and methods use memory that no operation of PyTorch has created.
OF_MEMORY = {"frombuffer", "resize_", "set_", "untyped_storage"}
# Methods that write and read files
OF_FILES = {"from_file", "imread", "imsave", "tofile"}
# Modules and functions that compile C++.
COMPILERS = {
    "autograd_course.external", "autograd_course.lesson.build", "torch.utils.cpp_extension",
}  # fmt: skip
# Modules that register operators. The checks do not see what an operator calls.
OPERATORS = {"torch.library", "torch._library", "torch._custom_op", "torch._custom_ops"}
# Modules that turn functions into programs. The checks do not see what a program calls.
PROGRAMS = ("onnx", "onnxruntime", "onnxscript", "torch.export", "torch.onnx")
OPERATOR_LESSONS = {"12", "14", "15"}  # their exercises may ask for an operator
COMPUTED = {"getattr", "setattr", "delattr", "hasattr"}
# These functions read attributes by name. Code may call or apply them, but not hand them on.
READERS = {"functools.wraps", "inspect.signature"}
COMPUTED_OPERATORS = {"operator.attrgetter", "operator.methodcaller"}
EVALUATING = {
    "__import__", "breakpoint", "compile", "eval", "exec", "globals", "locals", "open", "vars",
}  # fmt: skip
DUNDER_NAMES = {"__name__", "__doc__", "__debug__", "__class__"}
ODD_NAMES: Mapping[str, str] = {"dir": "lists attributes"}
# Attributes that an answer may change in any object.
DATA = {"bias", "grad", "requires_grad", "training", "weight"}
# Special attributes that change nothing that code does.
DESCRIBING = {"__doc__", "__module__", "__name__", "__qualname__"}
# Definitions that change which attributes Python reads, or that contain code as text.
SPECIAL = {
    "__annotate__", "__annotations__", "__array_interface__", "__array_struct__",
    "__cuda_array_interface__", "__match_args__", "__reduce__", "__reduce_ex__", "__set_name__",
    "__del__", "__dict__", "__getattribute__", "__getstate__", "__setstate__",
}  # fmt: skip
# Classes, and libraries of such classes, from which code is meant to derive classes.
BASES = {
    "abc", "contextlib.AbstractContextManager", "contextlib.ContextDecorator", "enum", "typing",
    "typing_extensions",
}  # fmt: skip
# In a pattern such as int(x), these classes match the object itself and read no attribute.
PLAIN_CLASSES = {
    "bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str",
    "tuple",
}  # fmt: skip

# --------------------------------------------------------------------------------------------------
# Names in answers that are Functions
# --------------------------------------------------------------------------------------------------

# With these names, other code can change a backward pass or its inputs.
HOOKS = {
    "register_hook", "register_prehook", "register_post_accumulate_grad_hook",
    "register_multi_grad_hook", "register_full_backward_hook", "saved_tensors_hooks",
    "disable_saved_tensors_hooks", "save_on_cpu",
}  # fmt: skip
# Methods of a Function. An answer may call them on its own classes, with ``ctx``.
METHODS = {"backward", "jvp"}
# With these attributes, autograd can compute a gradient that backward should compute by a formula.
DIFFERENTIATING = {
    "enable_grad", "set_grad_enabled", "inference_mode", "requires_grad_", "grad_fn",
    "retain_grad", "next_functions", "prev", "make_dual", "dual_level", "unpack_dual", "__exit__",
    "grad_and_value", "vjp", "jacrev", "jacfwd", "jacobian", "hessian", "hvp", "vhp", "linearize",
    "get_numerical_jacobian", "get_analytical_jacobian", "_get_numerical_jacobian",
    "log_abs_det_jacobian",
}  # fmt: skip
WRITTEN = {"prev"}  # those that only matter if code sets them
# Those that only modules have
OF_MODULES = {
    "grad_and_value", "hessian", "hvp", "jacfwd", "jacobian", "jacrev", "linearize", "vhp", "vjp",
}  # fmt: skip
DIFFERENTIATORS = (
    "torch.autograd.grad", "torch.autograd.backward", "torch.autograd.functional", "torch.optim",
    "torch.gradient", "numpy.gradient", "scipy.differentiate", "autograd_doctor",
    "autograd_course.diagnose", "autograd_course.doctor", "autograd_course.measure",
    *(f"autograd_course.lesson.{name}" for name in (
        "check_element", "compare_magnitudes", "five_steps", "leaderboard", "peak_bytes",
        "predict", "replicas", "run_backward", "run_gradcheck")),
    *(f"scipy.optimize.{name}" for name in (
        "approx_fprime", "basinhopping", "check_grad", "curve_fit", "dual_annealing", "fmin_bfgs",
        "fmin_cg", "fmin_l_bfgs_b", "fmin_ncg", "fmin_slsqp", "fmin_tnc", "fsolve",
        "least_squares", "leastsq", "minimize", "root", "shgo")),
    "torch.distributions.ExponentialFamily", "torch.distributions.utils.lazy_property",
    "scipy.stats.rv_continuous",
    "torch.autograd.gradcheck", "torch.autograd.gradgradcheck", "torch.cuda.make_graphed_callables",
    "torch.autograd.forward_ad", "torch.autograd.graph", "torch.enable_grad",
    "torch.set_grad_enabled", "torch.utils.checkpoint", "torch.autograd.enable_grad",
    *(f"torch.func.{name}" for name in (
        "grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize")),
)  # fmt: skip
# These can leave a block such as ``no_grad`` at any time.
LEAVING = ("contextlib.ExitStack", "contextlib.AsyncExitStack")
# Methods of these classes differentiate what a class that derives from them defines.
DIFFERENTIATING_BASES = ("torch.distributions.ExponentialFamily",)
# Dividing by a constant up to this size may be a finite difference or a complex step.
SMALL = 0.05
LARGE = 500.0  # multiplying by a constant of at least this size may be one, too
DIVIDING = {"div", "divide", "true_divide", "truediv", "itruediv"}
MULTIPLYING = {"mul", "multiply", "imul"}
# These methods and functions of NumPy and SciPy return the derivative of a polynomial.
OF_POLYNOMIALS = {
    "chebder", "deriv", "derivative", "derivatives", "hermder", "hermeder", "lagder", "legder",
    "polyder",
}  # fmt: skip
# An answer may enter these modes, but a class that derives from one of them changes what they do.
MODES = {
    "torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled", "torch.inference_mode",
    "torch.autograd.grad_mode.no_grad", "torch.autograd.grad_mode.enable_grad",
}  # fmt: skip
MUTATING = {
    "__delitem__", "__iadd__", "__iand__", "__imul__", "__ior__", "__isub__", "__ixor__",
    "__setitem__",
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "load_state_dict",
    "pop", "popitem", "put", "register_buffer", "register_parameter", "remove", "send", "set",
    "setdefault", "truncate", "update", "write", "writelines",
}  # fmt: skip
# These attributes and methods describe a tensor without its numbers.
DESCRIPTIONS = {
    "__name__", "device", "dim", "dtype", "element_size", "is_contiguous", "is_leaf", "itemsize",
    "is_cuda", "layout", "nbytes", "ndim", "needs_input_grad", "numel", "requires_grad", "shape",
    "size", "stride",
}  # fmt: skip
# These functions create tensors and arrays from sizes and limits.
OF_SIZES = {
    "arange", "bartlett_window", "blackman_window", "empty", "eye", "fftfreq", "hamming_window",
    "hann_window", "identity", "linspace", "logspace", "ones", "tri", "tril_indices",
    "triu_indices", "zeros",
}  # fmt: skip
CACHES = ("functools.cache", "functools.lru_cache")
# A call of these returns a new container, which shares nothing that code can change with others.
FRESH_CONTAINERS = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}
CONTAINERS = {
    "list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "SimpleNamespace",
    "WeakKeyDictionary", "WeakValueDictionary", "iter", "ContextVar", "local", "Queue",
    "UserDict", "UserList", "ChainMap", "Module", "ModuleDict", "ModuleList", "Sequential",
    "ParameterDict", "ParameterList", "copy", "deepcopy", "BytesIO", "StringIO",
}  # fmt: skip
