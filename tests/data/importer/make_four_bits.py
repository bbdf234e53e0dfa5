"""Models whose weights ONNX Runtime's MatMulNBitsQuantizer stored in 4 bits, with the outputs that
ONNX Runtime computes.

    PYTHON make_four_bits.py       # onnx, onnxruntime, numpy, safetensors

An embedding table, two products and a bias: as MatMulNBits and GatherBlockQuantized (QOperator),
and as DequantizeLinear of INT4 and UINT4 tensors (QDQ), with and without zero points.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, matmul_nbits_quantizer
from safetensors.numpy import save_file

HERE = Path(__file__).parent
rng = np.random.default_rng(3)


def model():
    weights = {"embed.weight": (12, 32), "fc1.weight": (32, 16), "fc1.bias": (16,), "fc2.weight": (16, 4)}
    tensors = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) / 4, n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Gather", ["embed.weight", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "fc1.weight"], ["p"]),
        helper.make_node("Add", ["p", "fc1.bias"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "fc2.weight"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5, 4])],
        tensors,
    )
    return helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    ids = rng.integers(0, 12, (3, 5)).astype(np.int64)
    floating = model()
    for name, form, symmetric in (("operators", "QOperator", False), ("operators_signed", "QOperator", True), ("qdq", "QDQ", False), ("qdq_signed", "QDQ", True)):
        kinds = ("MatMul", "Gather") if form == "QOperator" else ("MatMul",)
        config = matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(
            block_size=16, is_symmetric=symmetric, quant_format=QuantFormat[form], op_types_to_quantize=kinds
        )
        copy = onnx.ModelProto()
        copy.CopyFrom(floating)
        quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(copy, algo_config=config)
        quantizer.process()
        path = HERE / f"four_bits_{name}.onnx"
        onnx.save(quantizer.model.model, path)
        options = onnxruntime.SessionOptions()  # fused, DequantizeLinear and MatMul would round activations to 8 bits
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        save_file({"ids": ids, "y": session.run(None, {"ids": ids})[0]}, path.with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
