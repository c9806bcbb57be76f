"""Which of a machine's GPUs a job trains on: Snakemake counts them, but does not say which one a job has."""

import fcntl
import logging
import os
import tempfile
from pathlib import Path

import torch

from ssma.errors import StudyError

log = logging.getLogger("ssma")


def take_gpu() -> int:
    """Makes a GPU the one that this process trains on: the first that no other process of the user has taken.

    Where all are taken they are shared in turn. A lock that the system takes back when the process ends, however it
    ends, says that a GPU is taken. Only the GPUs in CUDA_VISIBLE_DEVICES are looked at. One on which nothing can be
    computed is left out, since all fits would fail there: torch is not built for it, or it is full or kept by others.

    Returns:
        The descriptor of the held lock; it stays open until the process ends.

    Raises:
        StudyError: If no GPU can be used.
    """
    folder = Path(tempfile.gettempdir(), f"ssma-gpus-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    torch.cuda.init()  # or GPUs that are cut by MIG would all be counted, of which CUDA then shows one part
    names = {number: torch.cuda.get_device_properties(number).uuid for number in range(torch.cuda.device_count())}
    turn, why = 0, "torch finds none"
    while names:
        for number, name in list(names.items()):
            descriptor = os.open(folder / f"{name}-{turn}", os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _use(number)
            except BlockingIOError:
                os.close(descriptor)
            except RuntimeError as error:
                os.close(descriptor)
                why = f"GPU {number}: {str(error).partition(chr(10))[0]}"
                log.warning("%s; it is left out", why)
                del names[number]
            else:
                return descriptor
        turn += 1
    raise StudyError(
        f"no GPU can be used ({why}); see that torch {torch.__version__} is built for it, that it has memory left and "
        f"that nobody keeps it for one process, or set device: cpu"
    )


def _use(number: int) -> None:
    """Makes a GPU the current one and computes on it."""
    torch.cuda.set_device(number)
    torch.ones(1, device="cuda").neg_().item()
