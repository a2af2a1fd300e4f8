"""Chooses the device on which PyTorch trains."""
import os
import re

import torch

from .score import Retry, out_of_memory


def require(*version):
    """An error of one sentence if PyTorch is older than a version."""
    found = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if found and tuple(map(int, found.groups())) < version:
        raise ValueError(f"PyTorch {torch.__version__} is too old; expected {'.'.join(map(str, version))} or later: update it")


def choose(name=None):
    """A torch.device: the named one, that of COALMINE_DEVICE, or else CUDA, MPS or the CPU, the first that is there.

    A device that PyTorch cannot use is an error of one sentence. Products of 32-bit floats stay 32-bit.
    """
    name = name or os.environ.get("COALMINE_DEVICE") or automatic()
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise ValueError(f"device {name!r} is unknown to PyTorch; expected cpu, cuda, cuda:1 or mps in COALMINE_DEVICE or the config") from None
    if kind == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which deterministic products need
        start_cuda(name)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    elif kind == "mps" and not has_mps():
        raise ValueError(f"device {name!r}: PyTorch {torch.__version__} has no MPS here; set COALMINE_DEVICE to cpu, or remove it")
    return torch.device(name)


def automatic():
    if torch.cuda.is_available():
        return "cuda"
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")  # by the worker, such as one of the class gpu
    if given or torch.version.cuda and os.path.exists("/dev/nvidiactl"):
        start_cuda("cuda")  # which says why it is not available
    return "mps" if has_mps() else "cpu"


def has_mps():
    return hasattr(torch.backends, "mps") and torch.backends.mps.is_available()


def start_cuda(name):
    """Starts CUDA, or says in one sentence why that fails."""
    try:
        torch.cuda.init()
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
        raise ValueError(f"device {name!r}: PyTorch {torch.__version__} cannot use it: {reason}; update the driver or PyTorch, or set COALMINE_DEVICE=cpu") from None


def halving(work, items):
    """Lists work(part) for parts of the items in their order: all of them, or halves of what is out of memory."""
    try:
        return [work(items)]
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        message = str(error).strip().split("\n")[0]
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(items) == 1:
        raise Retry(f"the device has no memory for one user: {message}; lower the batch, or take a device with more")
    half = len(items) // 2
    return halving(work, items[:half]) + halving(work, items[half:])
