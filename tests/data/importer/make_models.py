# Copies tiny models of the zoo and lists the tensors that PyTorch trained (ref.json) as trained.json.
# Usage: make_models.py ZOO_FOLDER
import json, os, shutil, sys

NAMES = ["store_constants_hand13", "store_views_hand14", "store_shared_hand13", "store_inputs_hand11",
         "struct_functions_hand17", "struct_if_hand16", "store_fp16_hand17", "store_qdq_int8_hand13", "norms_ts18",
         "equal_init_ts14", "sklearn_mlp_hand15", "struct_optional_hand17", "rnn_lstm_nofold_ts14"]
EXTERNAL = "store_external_hand17"

zoo, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
trained = {}
for name in NAMES:
    shutil.copyfile(f"{zoo}/{name}/model.onnx", f"{here}/{name}.onnx")
    trained[name] = sorted(p["onnx"] for p in json.load(open(f"{zoo}/{name}/ref.json"))["params"])
os.makedirs(f"{here}/{EXTERNAL}", exist_ok=True)
for f in os.listdir(f"{zoo}/{EXTERNAL}"):
    if not f.startswith(("batch", "ref")):
        shutil.copyfile(f"{zoo}/{EXTERNAL}/{f}", f"{here}/{EXTERNAL}/{f}")
json.dump(trained, open(f"{here}/trained.json", "w"), indent=1)
