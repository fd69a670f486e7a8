"""A command starts fast: it imports nothing that it does not need."""

import subprocess
import sys

HEAVY = ("sklearn", "scipy", "matplotlib", "jinja2", "pandas", "pyarrow", "fastapi", "uvicorn",
         "onnx", "onnxruntime", "flwr", "sentence_transformers", "huggingface_hub")  # fmt: skip


def test_the_command_line_imports_no_large_library_but_pytorch():
    code = "import sys, ofcl.cli.main; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torch" in out.stdout.split()
    assert [name for name in HEAVY if name in out.stdout.split()] == []
