"""What a benchmark ran on."""

import platform
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch_geometric

from ssma.study.ids import git_commit


def machine(devices: list[torch.device]) -> dict[str, str]:
    """Returns what the numbers depend on, by name."""
    gpus = [torch.cuda.get_device_name(device) for device in devices if device.type == "cuda"]
    return {
        "GPU": ", ".join(gpus) or "not used",
        "CPU": _processor(),
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "Python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": git_commit() or "not in a git checkout",
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
