#!/usr/bin/python3
# Writes tests/golden/npy_files.json: .npy files as numpy writes them, in hex, beside the values they hold.
import io, json, pathlib
import numpy as np

files = []
def add(name, array, version=None):
    raw = io.BytesIO()
    np.lib.format.write_array(raw, array, version=version)
    files.append({"name": name, "hex": raw.getvalue().hex(), "shape": list(array.shape),
                  "values": [v.item() for v in array.ravel()]})

for kind in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    values = np.array([0, 1, 2, 3, 100, 127]) if kind[0] == "u" else np.array([-3, 1, 2, -4, 100, 5])
    if kind[0] == "f":
        values = values / 4 + 1 / 16
    for endian in "<>":
        for order in "CF":
            add(f"{endian}{kind} {order}", np.array(values.reshape(2, 3), dtype=endian + kind, order=order))
add("bool", np.array([[True, False], [False, True]]))
add("f2 extremes", np.array([6.1e-5, 6e-8, 65504, -0.0], dtype="<f2"))
add("i8 extremes", np.array([2**63 - 1, -(2**63), 2**53 + 1], dtype="<i8"))
add("u8 beyond i8", np.array([2**63], dtype="<u8"))
add("single value", np.array(2.5))
add("one dimension, fortran", np.asfortranarray(np.arange(5.0)))
add("three dimensions, fortran", np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)))
add("three dimensions, fortran, big", np.asfortranarray(np.arange(24).reshape(4, 3, 2).astype(">i2")))
add("empty", np.zeros((0, 3)))
add("empty, fortran", np.asfortranarray(np.zeros((2, 0, 3))))
add("version 2", np.arange(4.0).reshape(2, 2), (2, 0))
add("version 3", np.arange(4.0).reshape(2, 2), (3, 0))
out = {"_source": f"numpy {np.__version__}, numpy.lib.format.write_array", "files": files}
path = pathlib.Path(__file__).resolve().parents[1] / "tests/golden/npy_files.json"
path.write_text(json.dumps(out, indent=0) + "\n")
