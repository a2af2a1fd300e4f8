"""Reads and writes safetensors files of 32-bit floats: https://huggingface.co/docs/safetensors"""
import json
import math
import os

import numpy


def read(path):
    """The tensors of a file by their names, in the order of the file: arrays of their own, which may be changed."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    return {name: tensor(name, entry, data) for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"])}


def tensor(name, entry, data):
    first, end = entry["data_offsets"]
    if entry["dtype"] != "F32" or end - first != 4 * math.prod(entry["shape"]) or end > len(data):
        raise ValueError(f"tensor {name!r} has {end - first} bytes of {entry['dtype']}, shape {entry['shape']}; expected 32-bit floats")
    return numpy.frombuffer(data, "<f4", count=(end - first) // 4, offset=first).reshape(entry["shape"])


def write(path, tensors, metadata=None):
    """Writes arrays by their names, in their order. A file that is there is written over, and keeps its memory."""
    arrays = {name: numpy.ascontiguousarray(values, dtype="<f4").reshape(numpy.shape(values)) for name, values in tensors.items()}
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.data if array.size else b"")
        file.truncate()
