"""Writes the seeds of corpus/ that no other script writes: small inputs with which each fuzz target starts.

    python make_corpora.py BACKEND_TEST_DATA

BACKEND_TEST_DATA is the folder of that name of an ONNX package (cmake/bootstrap.sh installs one); its node tests are the
models of corpus/onnx (Apache License 2.0). Inputs that once made a target fail are in corpus/TARGET too, with names
that begin with "crash-", "slow-" or "refused-"; this script does not change them."""
import json
import pathlib
import struct
import sys

from run_corpora import checkpoints, export_records, run_folders, write

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"

# One model for each kind of structure: subgraphs, functions, sequences, optional values, types, attributes, versions.
NODES = """
adagrad_multiple ai_onnx_ml_array_feature_extractor ai_onnx_ml_label_encoder_string_int attention_4d_with_past_and_present
averagepool_2d_ceil basic_conv_with_padding batchnorm_epsilon_training_mode bitshift_left_uint8 cast_FLOAT_to_INT4
castlike_FLOAT_to_FLOAT16_expanded center_crop_pad_crop_and_pad clip_default_min_expanded compress_negative_axis
constant constantofshape_int_zeros convtranspose_group_2 dequantizelinear_blocked dynamicquantizelinear_expanded
einsum_batch_diagonal gather_negative_indices gemm_all_attributes gridsample_bicubic group_normalization_example_expanded
gru_seq_length identity_opt identity_sequence if_opt if_seq instancenorm_epsilon layer_normalization_2d_axis0_expanded
loop11 loop16_seq_none lstm_with_peepholes maxunpool_export_with_output_shape momentum_multiple nonmaxsuppression_center_point_box_format
optional_get_element_optional_sequence optional_has_element_empty_optional_input pow_types_float32_int64
qlinearconv range_float_type_positive_delta_expanded reduce_l2_empty_set regex_full_match_basic reshape_zero_dim
resize_tf_crop_and_resize reversesequence_batch rnn_seq_length rotary_embedding_expanded scan9_sum scatternd_add
sequence_insert_at_back sequence_map_add_1_sequence_1_tensor slice_neg_steps softmax_default_axis_expanded
split_to_sequence_nokeepdims stft_with_window string_split_basic tfidfvectorizer_tf_onlybigrams_levelempty top_k_smallest
training_dropout_zero_ratio_mask unique_sorted_with_axis_3d where_long_example
""".split()


# ---- protocol buffers, as far as small ONNX models need them
def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, dtype, entries):
    out = b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name)
    for key, value in entries:
        out += field(13, field(1, key) + field(2, value))
    return out + field(14, 1)  # data_location: EXTERNAL


def model(tensors):
    names = [name for name, *_ in tensors]
    nodes = b"".join(field(1, field(1, n) + field(2, n + "_out") + field(3, n) + field(4, "Identity")) for n in names)
    outputs = b"".join(field(12, field(1, n + "_out")) for n in names)
    graph = nodes + field(2, "g") + b"".join(field(5, tensor(*t)) for t in tensors) + outputs
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def external_data():
    def one(name, location, dims=(4, 8), dtype=1, **entries):
        pairs = [("location", location)] + [(k, str(v)) for k, v in entries.items()]
        write("external_data", name, model([("w", dims, dtype, pairs)]))

    one("plain", "d")
    one("offset_length", "d", offset=64, length=128)
    one("beyond", "d", offset=4090)
    one("huge_offset", "d", offset=9223372036854775807, length=128)
    one("negative", "d", offset=-1)
    one("folder", "s/d", dims=(2, 2), dtype=11)
    one("four_bits", "d", dims=(3, 3), dtype=22)
    one("bool", "d", dims=(8,), dtype=9)
    one("empty_tensor", "d", dims=(0, 4))
    one("huge_dims", "d", dims=(1 << 62, 4))
    one("itself", "model.onnx", dims=(8,), dtype=3)
    for name, location in {"parent": "../outside.bin", "absolute": "/etc/passwd", "link": "l", "link_out": "o",
                           "link_absolute": "a", "link_folder": "u/outside.bin", "loop": "loop", "pipe": "p",
                           "subfolder": "s", "none": "", "nul": "d\0x", "dot": "./s/./d", "missing": "m"}.items():
        one(name, location, dims=(8,), dtype=3)
    one("twice", "d", checksum="da39a3ee", location_="d")
    write("external_data", "repeated_key", model([("w", (2,), 1, [("location", "d"), ("location", "s/d")])]))
    write("external_data", "two", model([("v", (2,), 1, [("location", "d"), ("offset", "8")]),
                                         ("w", (2,), 7, [("location", "s/d"), ("length", "16")])]))


def adapter(parameters, version=1, base=1):
    """Returns a .onnx_adapter file (importer/adapter/onnx_adapter.h). parameters: (name, dims, ONNX type, bytes)."""
    out = bytearray(struct.pack("<I4s", 20, b"TORT") + struct.pack("<HHHHHH", 12, 20, 4, 8, 12, 16))
    out += struct.pack("<iiiiI", 12, version, 1, base, 4) + struct.pack("<I", len(parameters)) + bytes(4 * len(parameters))
    vtable = len(out)
    out += struct.pack("<HHHHHH", 12, 20, 4, 8, 12, 16)

    def refer(place, to):
        out[place:place + 4] = struct.pack("<I", to - place)

    def align(size):
        # Aligns elements of `size` bytes, which follow their count.
        out.extend(bytes(-(len(out) + 4) % size))

    for i, (name, dims, dtype, data) in enumerate(parameters):
        table = len(out)
        refer(44 + 4 * i, table)
        out += struct.pack("<iIIiI", table - vtable, 0, 0, dtype, 0)
        refer(table + 4, len(out))
        out += struct.pack("<I", len(name)) + name.encode() + bytes(4 - len(name) % 4)
        align(8)
        refer(table + 8, len(out))
        out += struct.pack(f"<I{len(dims)}q", len(dims), *dims)
        align(8)
        refer(table + 16, len(out))
        out += struct.pack("<I", len(data)) + data + bytes(-len(data) % 4)
    return bytes(out)


def onnx_adapters():
    a, b = "m.q_proj.lora_A.MatMul.weight", "m.q_proj.lora_B.MatMul.weight"

    def pair(name, a_dims, b_dims, dtype=1, value=b"\0\0\x80\x3f", **more):
        def numbers(dims):
            count = 1
            for d in dims:
                count *= d
            return value * count if 0 < count < 100 else b""
        write("onnx_adapters", name, adapter([(a, a_dims, dtype, numbers(a_dims)), (b, b_dims, dtype, numbers(b_dims))],
                                             **more))

    pair("pair", (4, 2), (2, 3))
    pair("half", (4, 2), (2, 3), dtype=10, value=b"\0\x3c")
    pair("base", (4, 2), (2, 3), base=0x40000001)
    pair("other_version", (4, 2), (2, 3), version=2)
    pair("other_type", (4, 2), (2, 3), dtype=7, value=bytes(8))
    pair("ranks_differ", (4, 2), (3, 2))
    pair("no_matrix", (8,), (2, 3))
    pair("padded_rank", (4, 2), (2, 3), value=bytes(4))
    pair("not_finite", (4, 2), (2, 3), value=b"\0\0\xc0\x7f")
    # A reader that counts ranks one by one does not end.
    pair("endless_rank", (0, 1 << 60), (1 << 60, 0))
    write("onnx_adapters", "none", adapter([]))
    write("onnx_adapters", "alone", adapter([(a, (1, 1), 1, bytes(4))]))
    write("onnx_adapters", "twice", adapter([(a, (1, 1), 1, bytes(4)), (a, (1, 1), 1, bytes(4))]))


def onnx(backend):
    for name in NODES:
        source = backend / "node" / f"test_{name}" / "model.onnx"
        if source.exists() and source.stat().st_size < 4096:
            write("onnx", name + ".onnx", source.read_bytes())


def chat_templates():
    for name, source in {
        "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
                      "{% else %}{{ m['content'] | trim }}{% endif %}{% endfor %}",
        "macro": "{% macro f(x, y=1) %}{{ x }}{{ y + 1 }}{% endmacro %}{{ f('a') }}{{ f(2, y=3) }}",
        "namespace": "{%- set ns = namespace(i=0) -%}{%- for m in messages[::-1] -%}{%- set ns.i = ns.i + 1 -%}"
                     "{%- if loop.last -%}{{ ns.i }}{%- endif -%}{%- endfor -%}",
        "filters": "{{ messages | map(attribute='role') | join(', ') | upper }}{{ tools | tojson(indent=2) }}"
                   "{{ [3, 1] | sort | first }}{{ {'a': 1}.items() | list | length }}{{ 'x' is string and 1 is not none }}",
        "strings": "{{ 'a,b'.split(',')[1].strip() ~ \"\\n\\u00e9\" }}{{ 'abc'[1:] }}{{ 'a' in 'abc' }}{{ '%s' % 1 }}",
        "numbers": "{{ 7 // 2 }}{{ 7 % 2 }}{{ 2 ** 3 }}{{ 1.5e3 | int }}{{ range(3, 0, -1) | list }}{{ -1 | abs }}",
        "raised": "{{ raise_exception('no') }}",
        "inline_if": "{{ 'a' if add_generation_prompt else bos_token }}{# comment #}{{ strftime_now('%Y') }}",
        "loop_else": "{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for a, b in {'k': 2}.items() %}{{ a }}{{ b }}{% endfor %}",
        "call": "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{% endcall %}{% filter upper %}y{% endfilter %}",
        "recursion": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "endless": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "doubling": "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "itself": "{% set x = [] %}{{ x.append(x) }}{{ x }}",
        "deep": "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    }.items():
        write("chat_templates", name, source)


def yaml():
    for name, text in {
        "scalars": "lr: 5e-5\nepochs: 3\nuse_fp16: true\nname: 'quoted ''text'''\nnone: ~\ninf: .inf\nhex: 0x1F\ndate: 2026-11-27\n",
        "lists": "freeze: ['*.bias', \"a\\tb\"]\nlist:\n- 1\n- - 2\n  - 3\n-\n  k: v\n",
        "aliases": "a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, e: *x}\n",
        "doubling": "a: &a [1,1]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n",
        "blocks": "a: |\n  text\n   more\nb: >-\n  folded\n  text\n",
        "tags": "a: !!str 1\nb: !!binary aGk=\nc: !local x\nd: !!set {x, y}\n",
        "documents": "%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n",
        "complex_key": "? [a, b]\n: 1\n? {c: d}\n: 2\n",
        "twice": "a: 1\na: 2\n",
        "deep": "a: " + "[" * 60 + "]" * 60 + "\n",
        "comments": "# c\na: 1 # d\n\n\nb:\n  # e\n  c: 2\n",
        "flow": "{a: 1, 'b': [x, {y: z}], c: , d}\n",
    }.items():
        write("yaml", name, text)


def config():
    cases = {
        "flags": {"lr": 5e-5, "freeze": ["*.bias"], "epochs": 3, "use_fp16": True, "val": None,
            "loss": "cross_entropy"},
        "spellings": {"learning_rate": "1e-3", "num_train_epochs": 2, "no_shuffle": True,
            "per_device_train_batch_size": 4},
        "dumped": {"verb": "train", "config": {"lr": 0.1, "batch_size": 8}, "sources": {"lr": "command line",
            "batch_size": "derived"}},
        "loss_object": {"loss": {"kind": "cross_entropy", "weight": 0.5, "label_smoothing": 0.1}},
        "unknown": {"learning_rte": 1},
        "wrong_types": {"lr": [1], "epochs": "x", "freeze": {"a": 1}, "seed": 1e300},
        "numbers": {"lr": 1e-320, "seed": 9223372036854775807, "epochs": -1, "max_grad_norm": "inf"},
    }
    for name, value in cases.items():
        write("config", name + "_json", "\0" + json.dumps(value))
    write("config", "comment_json", '\0{// c\n"lr": 1, "lr": 2}')
    write("config", "deep_json", "\0" + '{"a":' * 120 + "1" + "}" * 120)
    write("config", "eval_json", "\x02" + json.dumps({"metric": "accuracy", "batch_size": 4}))
    write("config", "flags_yaml", "\x01lr: 5e-5\nfreeze: ['*.bias']\nuse_bf16: true\n")
    for name in ("args.yaml", "sgd.yaml", "training_args.json"):
        kind = b"\x01" if name.endswith("yaml") else b"\0"
        write("config", name.replace(".", "_"), kind + (DATA / "cli" / name).read_bytes())


def command_line():
    for name, words in {
        "train": ["train", "model.onnx", "--train", "a.csv", "--val", "b.csv", "--lr", "5e-5", "--epochs=3",
            "--use_fp16"],
        "spellings": ["model.onnx", "--learning-rate", "1e-3", "--no_shuffle", "--freeze", "*.bias", "--freeze",
            "emb*"],
        "environment": ["ONNX_AMP_LR=0.1", "ONNX_AMP_FREEZE=[\"a\", \"b\"]", "ONNX_AMP_LRR=1", "train", "m.onnx",
            "--train", "t.tsv"],
        "verbs": ["eval", "m.onnx", "--data", "x.jsonl", "--metric", "f1"],
        "predict": ["predict", "m.onnx", "--data", "x.csv", "--output", "p.csv", "--top_k", "3"],
        "export": ["export", "run", "--export_dtype", "fp16"],
        "generate": ["generate", "m.onnx", "--prompt", "a b", "--max_new_tokens", "5", "--temperature", "0.7"],
        "help": ["help", "train"],
        "version": ["--version"],
        "unknown": ["train", "m.onnx", "--learning_rte", "1"],
        "loss": ["train", "m.onnx", "--train", "t.csv", "--loss", "{\"kind\": \"cross_entropy\"}", "--optimizer",
            "lion"],
        "schedule": ["train", "m.onnx", "--train", "t.csv", "--schedule", "cosine", "--warmup", "0.1", "--max_steps",
            "10"],
        "optional_value": ["bench", "m.onnx", "--serve", "--steps", "-1", "--", "-x"],
        "create": ["create", "bert", "--model_config", "{\"hidden_size\": 8}", "-o", "m.onnx"],
        "numbers": ["train", "m.onnx", "--train", "t.csv", "--seed", "9223372036854775808", "--lr", "nan", "--epochs",
            "1e400"],
    }.items():
        write("command_line", name, "\n".join(words))


def frames():
    def frame(value):
        body = json.dumps(value).encode()
        return b"AMPRANK\n" + struct.pack(">I", len(body)) + body

    hello = {"rank": 1, "host": "a", "pid": 7, "port": 5000, "addresses": ["127.0.0.1"], "protocol": 1, "size": 2,
        "job": ""}
    line = json.dumps({"secret": "0" * 32, "rank": 1, "host": "a", "pid": 7}).encode() + b"\n"
    for name, data in {
        "hello": frame(hello), "welcome": frame({"ranks": [hello, hello], "secret": "0" * 32}), "two": frame(hello) * 2,
        "challenge": frame({"challenge": "0" * 32}) + frame({"answer": "{}", "proof": "0" * 64}),
        "proof": frame({"hello": json.dumps(hello), "nonce": "1" * 32, "proof": "0" * 64}),
        "wrong_types": frame({"challenge": 1, "hello": [], "nonce": {}, "proof": None}),
        "refused": frame({"refused": "why"}), "array": frame([1]), "cut": frame(hello)[:30],
            "foreign": b"GET / HTTP/1.1\r\n\r\n",
        "long": b"AMPRANK\n\xff\xff\xff\xff{}", "empty": b"AMPRANK\n\0\0\0\0",
            "deep": frame(json.loads("[" * 50 + "]" * 50)),
        "line": line, "lines": line * 3, "no_end": line[:-1], "blank": b"\n\n{}\n",
            "number": b"1e999\n{\"rank\":1e300}\n",
    }.items():
        write("frames", name, b"\0" + data)
        write("frames", name + "_in_parts", b"\x01" + data)


def questions():
    squad = {"data": [{"paragraphs": [{"context": "\u00e9t\u00e9 x", "qas": [
        {"id": "q", "question": "?", "answers": [{"text": "x", "answer_start": 4}]},
        {"id": 7, "question": "!", "is_impossible": True, "answers": []}]}]}]}
    write("questions", "squad", json.dumps(squad, ensure_ascii=False))
    write("questions", "deep_id", json.dumps(squad).replace('"q"', "[" * 90 + "]" * 90))
    write("questions", "conll", "EU B-ORG\nrejects O\n\nPeter\tNNP\tB-PER\n-DOCSTART- O\n")


if __name__ == "__main__":
    onnx(pathlib.Path(sys.argv[1]))
    for make in (external_data, onnx_adapters, chat_templates, yaml, config, command_line, questions, frames, checkpoints, run_folders,
        export_records):
        make()
