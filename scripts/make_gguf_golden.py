#!/usr/bin/env python3
"""Writes tests/golden/all_types.gguf with PyPI's gguf package: a metadata value of every type and tensors of three
types. tests/lib/formats/gguf_test.cpp knows what is in it. Run in an environment with `pip install gguf numpy`."""

import pathlib

import gguf
import numpy as np

path = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/all_types.gguf"
writer = gguf.GGUFWriter(path, "llama")
writer.add_uint8("t.u8", 200)
writer.add_int8("t.i8", -100)
writer.add_uint16("t.u16", 60000)
writer.add_int16("t.i16", -30000)
writer.add_uint32("t.u32", 4000000000)
writer.add_int32("t.i32", -2000000000)
writer.add_uint64("t.u64", 2**64 - 1)
writer.add_int64("t.i64", -(2**63))
writer.add_float32("t.f32", 0.1)
writer.add_float64("t.f64", 0.1)
writer.add_bool("t.bool", True)
writer.add_string("t.string", "naïve ▁")
writer.add_array("t.strings", ["a", "", "ccc"])
writer.add_array("t.integers", [1, -2, 3])
writer.add_array("t.reals", [0.5, -1.5])
writer.add_array("t.nested", [[1, 2], [3, 4]])
writer.add_tensor("m", np.arange(6, dtype=np.float32).reshape(2, 3))
writer.add_tensor("h", np.array([1, -2, 0.5], dtype=np.float16))
rows = (np.arange(128, dtype=np.float32) - 64).reshape(4, 32) / 64
writer.add_tensor("q", gguf.quantize(rows, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
