"""Submissions that patch the course itself. Nothing in the sandbox gives points."""

from hostile.making import Hostile, half

_MISMATCH = "gradient of `x`"

PATCHING = {
    "the rules": Hostile(
        half("import autograd_doctor._judge as j\nj.judge = lambda *a, **k: ()"),
        _MISMATCH, "replaces autograd_doctor._judge.judge",
    ),
    "grade": Hostile(
        half("import autograd_course\nautograd_course.grade = lambda *a: 'passed'"),
        _MISMATCH, "replaces autograd_course.grade",
    ),
    "what opens the judge's experiments": Hostile(
        half("import autograd_classroom.worker.functions as f\n"
             "f.opened = lambda parcel: lambda *a: None"),
        _MISMATCH, "replaces autograd_classroom.worker.functions.opened",
    ),
    "what builds the judge's experiments": Hostile(
        half("from autograd_classroom.protocol import parcel\n"
             "parcel.function.__code__ = (lambda *a: None).__code__"),
        _MISMATCH, "the code of function",
    ),
    "who answers the judge": Hostile(
        half("from autograd_classroom.worker.handlers import Handlers\n"
             "Handlers._answered = lambda *a: None"),
        _MISMATCH, "Handlers._answered",
    ),
    "what runs backward": Hostile(
        half("from autograd_course import engine\n"
             "engine.run_backward.__code__ = (lambda *a, **k: ()).__code__"),
        _MISMATCH, "the code of run_backward",
    ),
    "what looks at the answer": Hostile(
        half("import autograd_classroom.worker.functions as f\n"
             "f.collect_evidence = lambda *a, **k: ()"),
        _MISMATCH, "replaces autograd_classroom.worker.functions.collect_evidence",
    ),
    "what looks at the answer, while forward runs for the first time": Hostile(
        half("import autograd_doctor._probes.core as p\ntimes = []",
             "if not times: p.backward_pass = lambda *a, **k: None\n"
             "times.append(x)\nctx.save_for_backward(x)\nreturn x * x"),
        _MISMATCH, "replaces autograd_doctor._probes.core.backward_pass while it runs",
    ),
    "what packs the answer": Hostile(
        half("import safetensors.torch, autograd_classroom.protocol.wire as w\n"
             "safetensors.torch.save = w.pack = lambda *a: b''"),
        _MISMATCH, "replaces safetensors.torch.save",
    ),
    "modules in sys.modules": Hostile(
        half("import sys, types\nfor name in list(sys.modules):\n"
             "    if name.startswith(('autograd_course', 'json', 'safetensors')):\n"
             "        sys.modules[name] = types.ModuleType(name)"),
        _MISMATCH, "reaches sys",
    ),
    "an import hook": Hostile(
        half("import sys\nclass Hook:\n    def find_spec(*a): raise ImportError('no')\n"
             "sys.meta_path.insert(0, Hook())\nsys.path.clear()"),
        _MISMATCH, "reaches sys",
    ),
    "the file of the package": Hostile(
        "open('/course/autograd_course/lesson.py', 'a')",
        "Permission denied|Read-only file system", "uses open",
    ),
}  # fmt: skip
