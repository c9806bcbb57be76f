"""Which of a machine's GPUs a job trains on: Snakemake counts them, but does not say which one a job has."""

import fcntl
import os
import tempfile
from pathlib import Path

import torch


def take_gpu() -> int:
    """Makes a GPU the one that this process trains on: the first that no other process of the user has taken.

    Where all are taken they are shared in turn. A lock that the system takes back when the process ends, however it
    ends, says that a GPU is taken. Only the GPUs in CUDA_VISIBLE_DEVICES are looked at; with one there is no choice.

    Returns:
        The descriptor of the held lock; it stays open until the process ends.
    """
    folder = Path(tempfile.gettempdir(), f"ssma-gpus-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    names = [torch.cuda.get_device_properties(number).uuid for number in range(torch.cuda.device_count())]
    turn = 0
    while True:
        for number, name in enumerate(names):
            descriptor = os.open(folder / f"{name}-{turn}", os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            torch.cuda.set_device(number)
            return descriptor
        turn += 1
