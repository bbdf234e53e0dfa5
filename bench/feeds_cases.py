"""The data sets of feeds.py: for each the command that trains on its original files, the inputs of
`predict`, and the function that checks the predictions (feeds_check.py).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import feeds_check as check


@dataclass
class Case:
    name: str
    data: str  # name in the table
    model: str  # a file, or an architecture for `create`
    train: list  # flags of the data set
    inputs: str  # inputs of `predict`
    agree: Callable  # function of feeds_check.py that compares the predictions
    create: dict = field(default_factory=dict)  # value of --model_config, for `create`
    predict: list = field(default_factory=list)
    masks: bool = False  # predictions are images
    head: str = ""  # value of --model_head, for `create`
    reads: dict = field(default_factory=dict)  # what `agree` needs in addition: tokenizer files, columns


MINILM = "paraphrase-MiniLM-L3-v2.onnx"
SMALL_BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
TEXT = ["--lr", "2e-4", "--batch_size", "16"]


def sentences(data):
    """Yields the data sets whose rows are one text or two, with a class or a number as the label."""
    glue, xnli, tokenizers = data / "glue", data / "xnli", data / "tokenizers"
    uncased = tokenizers / "bert-base-uncased" / "vocab.txt"
    chinese = tokenizers / "bert-base-chinese" / "vocab.txt"

    def case(name, title, folder, train, val, columns, label, more=(), **given):
        flags = ["--train", folder / train, "--val", folder / val, "--vocab", uncased]
        flags += ["--text_columns", columns, "--label_column", label, *TEXT, *more]
        held = dict(reads={"file": uncased, "columns": columns})
        return Case(name, title, MINILM, flags, folder / val, check.classes, **{**held, **given})

    sst2 = ["--val_text_columns", "content"]
    yield case("sst2", "SST-2", glue / "sst2", "train.tsv", "dev.tsv", "sentence", "label", sst2,
               predict=["--text_columns", "content"], reads={"file": uncased, "columns": "content"})  # fmt: skip
    yield case("cola", "CoLA", glue / "cola", "train.tsv", "dev.tsv", "3", "1")
    mrpc = ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "#1 String,#2 String", "Quality")
    yield case("mrpc", "MRPC", glue / "mrpc", *mrpc)
    yield case("rte", "RTE", glue / "rte", "train.tsv", "dev.tsv", "sentence1,sentence2", "label")
    stsb = case("stsb", "STS-B", glue / "stsb", "train.tsv", "dev.tsv", "sentence1,sentence2", "score")
    stsb.agree = check.numbers
    yield stsb
    few = ["--limit_val", "1000"]
    yield case("xnli_en", "XNLI, English", xnli, "dev-en.tsv", "test-en.tsv", "0,1", "2", few)
    zh = case("xnli_zh", "XNLI, Chinese", xnli, "dev-zh.tsv", "test-zh.tsv", "0,1", "2", [*few, "--vocab", chinese])
    zh.model, zh.head, zh.create = "bert", "none", {**SMALL_BERT, "vocab_size": 21128}
    zh.reads = {"file": chinese, "columns": "0,1"}
    yield zh


def words_and_answers(data):
    tokenizers = data / "tokenizers"
    uncased = tokenizers / "bert-base-uncased" / "vocab.txt"
    cased = tokenizers / "bert-base-multilingual-cased" / "vocab.txt"
    wnut, qa, tweets = data / "ner" / "wnut17", data / "qa", data / "tweet_sentiment_extraction" / "train.csv"
    yield Case("wnut17", "WNUT-17", MINILM,
               ["--task", "token", "--train", wnut / "wnut17train.conll", "--val", wnut / "emerging.dev.conll",
                "--vocab", uncased, "--lr", "5e-4", "--batch_size", "16"],
               wnut / "emerging.test.annotated", check.tags, reads={"file": uncased})  # fmt: skip
    panx = data / "ner" / "panx"
    yield Case("panx", "PAN-X, English", MINILM,
               ["--task", "token", "--train", panx / "train-en.tsv", "--val", panx / "dev-en.tsv", "--limit_val", "1000",
                "--vocab", uncased, "--lr", "3e-4", "--batch_size", "16"],
               panx / "dev-en.tsv", check.tags, reads={"file": uncased})  # fmt: skip
    span = ["--task", "span", "--lr", "2e-4"]
    yield Case("xquad_en", "XQuAD, English", MINILM,
               [*span, "--train", qa / "xquad.en.json", "--val", qa / "xquad.en.json", "--limit_val", "200",
                "--vocab", uncased, "--max_seq_len", "256", "--batch_size", "8"],
               qa / "xquad.en.json", check.answers, reads={"file": uncased})  # fmt: skip
    yield Case("xquad_de", "XQuAD, German", "bert",
               [*span, "--train", qa / "xquad.de.json", "--val_split", "0.1", "--vocab", cased,
                "--lower_case", "false", "--batch_size", "8"],
               qa / "xquad.de.json", check.answers,
               head="question_answering", create={**SMALL_BERT, "vocab_size": 119547},
               reads={"file": cased, "lower_case": False})  # fmt: skip
    yield Case("tweets", "Tweet Sentiment Extraction", MINILM,
               [*span, "--train", tweets, "--val_split", "0.02", "--text_columns", "sentiment,text", "--label_column",
                "selected_text", "--vocab", uncased, "--max_seq_len", "96", "--max_answer_length", "96",
                "--batch_size", "16"],
               tweets, check.answers, reads={"file": uncased, "columns": "sentiment,text"})  # fmt: skip


def images_and_tables(data):
    fashion, camvid, rossmann = data / "fashion_mnist", data / "segmentation" / "camvid", data / "rossmann"
    test = fashion / "t10k-images-idx3-ubyte.gz"
    yield Case("fashion", "Fashion-MNIST", "lenet",
               ["--train", fashion / "train-images-idx3-ubyte.gz", "--val", test, "--lr", "3e-3", "--batch_size", "64"],
               test, check.grey_images, create={"activation": "relu"})  # fmt: skip
    yield Case("camvid", "CamVid", "unet",
               ["--train", camvid / "train", "--train_masks", camvid / "trainannot", "--val", camvid / "val",
                "--val_masks", camvid / "valannot", "--mask_ignore", "11", "--lr", "3e-3", "--batch_size", "2"],
               camvid / "val", check.masks, create={"num_classes": 11, "width": 8}, masks=True)  # fmt: skip
    categories = {"Store": 1116, "DayOfWeek": 8, "Promo": 3, "StateHoliday": 5, "StoreType": 5, "Assortment": 4,
                  "PromoInterval": 4, "Year": 4, "Month": 13, "Day": 32}  # fmt: skip
    yield Case("rossmann", "Rossmann", "tabular",
               ["--train", rossmann / "train.csv.gz", "--join", f"{rossmann / 'store.csv'}:Store", "--date", "Date",
                "--categorical", ",".join(categories), "--continuous", "CompetitionDistance,Promo2SinceYear",
                "--target", "Sales", "--target_transform", "log1p", "--batchnorm", "train", "--val_split", "0.02",
                "--lr", "1e-2", "--batch_size", "512"],
               rossmann / "train.csv.gz", check.raw_rows,
               create={"categories": list(categories.values()), "continuous": 4, "hidden": [200, 100]},
               reads={"join": rossmann / "store.csv"})  # fmt: skip


def language(data, zoo, text, tokenizers):
    """Yields the cases of language models. text: a folder with train.txt and dev.txt. tokenizers: folder for tokenizers
    that are not in a file."""
    flags = ["--task", "language", "--text_columns", "text", "--train", text / "train.txt", "--val", text / "dev.txt"]
    flags += ["--lr", "1e-3", "--batch_size", "8", "--packing"]
    zoo_tokenizer = tokenizers / "letters" / "tokenizer.json"
    yield Case("gpt2_lm", "plain text, gpt2_lm of the zoo", zoo / "gpt2_lm_dyn18" / "model.onnx",
               [*flags, "stride", "--max_seq_len", "40", "--doc_stride", "8", "--tokenizer", zoo_tokenizer],
               text / "dev.txt", check.texts, reads={"file": zoo_tokenizer, "letters": 120})  # fmt: skip
    folder = tokenizers / "gpt2"
    gpt2 = {"vocab.json": data / "tokenizers" / "gpt2" / "vocab.json",
            "merges.txt": data / "tokenizers" / "roberta-base" / "merges.txt"}  # fmt: skip
    yield Case("gpt2", "plain text, GPT-2's tokenizer", "gpt2",
               [*flags, "none", "--max_seq_len", "128", "--tokenizer", folder], text / "dev.txt", check.texts,
               create={"n_embd": 48, "n_layer": 2, "n_head": 2, "n_positions": 128},
               reads={"folder": folder, "files": gpt2})  # fmt: skip


def all_cases(args, work):
    yield from sentences(args.data)
    yield from words_and_answers(args.data)
    yield from images_and_tables(args.data)
    yield from language(args.data, args.zoo, args.text, Path(work) / "tokenizers")
