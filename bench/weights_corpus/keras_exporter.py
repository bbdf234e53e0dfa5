"""Cases that TensorFlow exports: Keras models by tf2onnx. "13-tflite" first converts a model to
TensorFlow Lite, which folds constants and renames tensors. "-fresh" keeps initial values. The weights are the
`trainable_variables`, which have other values in the second export (common.py).
"""

import math
import tempfile

import numpy as np
import tensorflow as tf
import tf2onnx

from common import floats, other_values, registrar, tokens, trained_values, write_case

L = tf.keras.layers
FAMILIES = []
# A family is a function that returns (Keras model, {input name: array}); an opset "13-fresh" keeps initial values.
family = registrar(FAMILIES)


# --------------------------------------------------------------------------------------- cases of the part fit


@family("fit", "13", "17", "13-tflite")
def keras_normalized_table():
    norm = L.Normalization()
    norm.adapt(np.random.default_rng(0).standard_normal((200, 6)) * 40 + 7)
    model = tf.keras.Sequential(
        [tf.keras.Input((6,)), norm, L.Dense(32, "relu"), L.BatchNormalization(), L.Dropout(0.2), L.Dense(16, "swish"), L.Dense(1)]
    )
    return model, {"x": floats(6)}


@family("fit", "13", "15-fresh")
def keras_lstm_text():
    ids = tf.keras.Input((10,), dtype=tf.int32, name="ids")
    h = L.Embedding(80, 16)(ids)
    h = L.Bidirectional(L.LSTM(12, return_sequences=True))(h)
    h = L.LSTM(10)(h)
    return tf.keras.Model(ids, L.Dense(4, "softmax")(h)), {"ids": tokens(80, 10)}


@family("fit", "12", "17-fresh", "14-tflite")
def keras_small_cnn():
    x = tf.keras.Input((24, 24, 3), name="image")
    h = L.Rescaling(1 / 127.5, offset=-1)(x)
    for c in (8, 16):
        h = L.Conv2D(c, 3, padding="same", use_bias=False)(h)
        h = L.BatchNormalization()(h)
        h = L.ReLU()(h)
        h = L.MaxPool2D()(h)
    h = L.Dropout(0.3)(L.GlobalAveragePooling2D()(h))
    return tf.keras.Model(x, L.Dense(5)(h)), {"image": floats(24, 24, 3)}


@family("fit", "14")
def keras_timedistributed_conv():
    x = tf.keras.Input((6, 12, 12, 1), name="clip")
    h = L.TimeDistributed(L.Conv2D(8, 3, activation="relu"))(x)
    h = L.TimeDistributed(L.BatchNormalization())(h)
    h = L.TimeDistributed(L.GlobalAveragePooling2D())(h)
    h = L.TimeDistributed(L.Dense(12, "tanh"))(h)
    h = L.Attention(use_scale=True)([h, h])
    return tf.keras.Model(x, L.Dense(3)(L.Flatten()(h))), {"clip": floats(6, 12, 12, 1)}


# -------------------------------------------------------------------------------------- cases of the part test


@family("test", "13", "17-fresh")
def keras_gru_text():
    ids = tf.keras.Input((9,), dtype=tf.int32, name="ids")
    h = L.Embedding(70, 12, mask_zero=False)(ids)
    h = L.GRU(14, return_sequences=True)(h)
    h = L.GRU(10, reset_after=False)(h)
    return tf.keras.Model(ids, L.Dense(3)(h)), {"ids": tokens(70, 9)}


@family("test", "15")
def keras_simple_rnn():
    x = tf.keras.Input((8, 5), name="series")
    h = L.SimpleRNN(12, return_sequences=True)(x)
    return tf.keras.Model(x, L.Dense(2)(L.Bidirectional(L.SimpleRNN(9))(h))), {"series": floats(8, 5)}


@family("test", "13", "17-fresh")
def keras_convlstm():
    x = tf.keras.Input((4, 8, 8, 2), name="radar")
    h = L.ConvLSTM2D(6, 3, padding="same", return_sequences=True)(x)
    h = L.BatchNormalization()(h)
    h = L.ConvLSTM2D(4, 3, padding="same")(h)
    return tf.keras.Model(x, L.Conv2D(1, 1, activation="sigmoid")(h)), {"radar": floats(4, 8, 8, 2)}


class Sinusoids(L.Layer):
    """Adds fixed sine and cosine positions: a NumPy constant of the layer."""

    def __init__(self, length, dim):
        super().__init__()
        angle = np.arange(length)[:, None] / 10000 ** (np.arange(dim // 2) * 2 / dim)
        self.table = tf.constant(np.concatenate([np.sin(angle), np.cos(angle)], -1)[None], tf.float32)

    def call(self, x):
        return x * math.sqrt(16) + self.table


@family("test", "13", "16")
def keras_transformer():
    ids = tf.keras.Input((12,), dtype=tf.int32, name="tokens")
    h = Sinusoids(12, 16)(L.Embedding(90, 16)(ids))
    for _ in range(2):
        a = L.MultiHeadAttention(2, 8)(h, h)
        h = L.LayerNormalization(epsilon=1e-6)(h + a)
        f = L.Dense(16)(L.Dense(32, lambda t: tf.nn.gelu(t, approximate=True))(h))
        h = L.LayerNormalization(epsilon=1e-6)(h + f)
    return tf.keras.Model(ids, L.Dense(2)(L.GlobalAveragePooling1D()(h))), {"tokens": tokens(90, 12)}


@family("test", "14")
def keras_additive_attention():
    q, v = tf.keras.Input((5, 8), name="query"), tf.keras.Input((7, 8), name="value")
    h = L.AdditiveAttention()([L.Dense(12)(q), L.Dense(12)(v)])
    return tf.keras.Model([q, v], L.Dense(2)(L.GlobalMaxPooling1D()(h))), {"query": floats(5, 8), "value": floats(7, 8)}


@family("test", "15", "11", "13-tflite")
def keras_mobilenet():
    x = tf.keras.Input((16, 16, 3), name="image")
    h = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)))
    for c in (12, 16):
        h = L.ReLU(6.0)(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same", use_bias=False)(h)))
        h = L.BatchNormalization()(L.Conv2D(c, 1, use_bias=False)(h))
    s = L.GlobalAveragePooling2D(keepdims=True)(h)
    h = h * L.Conv2D(16, 1, activation="hard_sigmoid")(L.Conv2D(4, 1, activation="relu")(s))
    h = L.PReLU(shared_axes=[1, 2])(L.SeparableConv2D(16, 3)(h))
    return tf.keras.Model(x, L.Dense(10)(L.Flatten()(h))), {"image": floats(16, 16, 3)}


@family("test", "13")
def keras_random_fourier():
    x = tf.keras.Input((5,), name="x")
    h = tf.keras.layers.experimental.RandomFourierFeatures(64, scale=2.0)(x)
    return tf.keras.Model(x, L.Dense(3)(h)), {"x": floats(5)}


class MelSpectrogram(L.Layer):
    """Log mel energies by a windowed DFT written as products with constants of tf.signal."""

    def __init__(self):
        super().__init__()
        n, k = np.arange(64)[:, None], np.arange(33)
        window = np.hanning(65)[:64, None]
        self.re = tf.constant(np.cos(2 * np.pi * n * k / 64) * window, tf.float32)
        self.im = tf.constant(np.sin(2 * np.pi * n * k / 64) * window, tf.float32)
        self.mel = tf.signal.linear_to_mel_weight_matrix(12, 33, 8000, 60.0, 3800.0)

    def call(self, frames):
        power = tf.square(tf.matmul(frames, self.re)) + tf.square(tf.matmul(frames, self.im))
        return tf.math.log(tf.matmul(power, self.mel) + 1e-6)


@family("test", "13", "17", "15-tflite")
def keras_speech_commands():
    x = tf.keras.Input((10, 64), name="frames")
    h = L.Conv1D(16, 3, activation="relu")(L.BatchNormalization()(MelSpectrogram()(x)))
    return tf.keras.Model(x, L.Dense(4)(L.GlobalMaxPooling1D()(h))), {"frames": floats(10, 64)}


class Rezero(L.Layer):
    def build(self, shape):
        self.alpha = self.add_weight("alpha", (), initializer="zeros")
        self.inner = L.EinsumDense("bnd,de->bne", output_shape=(None, shape[-1]), bias_axes="e")

    def call(self, x):
        return x + self.alpha * tf.nn.relu(self.inner(x))


class Prototypes(L.Layer):
    """Negative squared distances to trained prototypes."""

    def build(self, shape):
        self.prototypes = self.add_weight("prototypes", (5, shape[-1]), initializer="random_normal")

    def call(self, x):
        return -tf.reduce_sum(tf.square(x[:, None] - self.prototypes[None]), -1)


@family("test", "13", "15")
def keras_rezero_prototypes():
    x = tf.keras.Input((6, 8), name="x")
    h = Rezero()(Rezero()(x))
    return tf.keras.Model(x, Prototypes()(L.GlobalAveragePooling1D()(h))), {"x": floats(6, 8)}


@family("test", "12", "13-tflite")
def keras_autoencoder():
    x = tf.keras.Input((16, 16, 1), name="x")
    h = L.Conv2D(8, 3, 2, "same", activation="elu")(x)
    h = L.GroupNormalization(4)(h)
    h = L.Dense(10)(L.Flatten()(h))
    h = L.Reshape((8, 8, 4))(L.Dense(256, "relu")(h))
    h = L.Conv2DTranspose(6, 3, 2, "same", activation="selu")(h)
    return tf.keras.Model(x, L.Conv2D(1, 3, padding="same", activation="sigmoid")(h)), {"x": floats(16, 16, 1)}


# ----------------------------------------------------------------------------------- cases of the part heldout


@family("heldout", "13", "15-tflite")
def keras_wavenet():
    x = tf.keras.Input((32, 2), name="series")
    h = L.Conv1D(8, 1)(x)
    for d in (1, 2, 4):
        a = L.Conv1D(8, 2, dilation_rate=d, padding="causal", activation="tanh")(h)
        g = L.Conv1D(8, 2, dilation_rate=d, padding="causal", activation="sigmoid")(h)
        h = L.Add()([h, L.Conv1D(8, 1)(L.Multiply()([a, g]))])
    return tf.keras.Model(x, L.Conv1D(3, 1, activation="softmax")(h)), {"series": floats(32, 2)}


@family("heldout", "13", "16-fresh", "14-tflite")
def keras_efficientnet():
    x = tf.keras.Input((16, 16, 3), name="image")
    h = L.Normalization(mean=[0.485, 0.456, 0.406], variance=[0.052441, 0.050176, 0.050625])(L.Rescaling(1 / 255.0)(x))
    h = L.Conv2D(8, 3, 2, "same", use_bias=False)(h)
    for c in (8, 12):
        r = L.Activation("swish")(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same", use_bias=False)(h)))
        s = L.Dense(2, "swish")(L.GlobalAveragePooling2D()(r))
        r = L.Multiply()([r, L.Reshape((1, 1, 8 if c == 8 else 8))(L.Dense(8, "sigmoid")(s))])
        h = L.BatchNormalization()(L.Conv2D(8, 1, use_bias=False)(r))
    return tf.keras.Model(x, L.Dense(4)(L.GlobalAveragePooling2D()(h))), {"image": floats(16, 16, 3)}


class Patches(L.Layer):
    """Patches with a learned class token and learned positions."""

    def build(self, shape):
        self.proj = L.Conv2D(16, 4, 4)
        self.token = self.add_weight(name="token", shape=(1, 1, 16), initializer="zeros")
        self.position = self.add_weight(name="position", shape=(1, 17, 16), initializer="random_normal")

    def call(self, x):
        h = tf.reshape(self.proj(x), (-1, 16, 16))
        return tf.concat([tf.repeat(self.token, tf.shape(x)[0], 0), h], 1) + self.position


@family("heldout", "14", "17-fresh")
def keras_vit():
    x = tf.keras.Input((16, 16, 3), name="image")
    h = Patches()(x)
    a = L.LayerNormalization()(h)
    h = L.Add()([h, L.MultiHeadAttention(2, 8)(a, a)])
    h = L.Add()([h, L.Dense(16)(L.Dense(32, "gelu")(L.LayerNormalization()(h)))])
    return tf.keras.Model(x, L.Dense(4)(L.LayerNormalization()(h)[:, 0])), {"image": floats(16, 16, 3)}


class Time2Vec(L.Layer):
    def build(self, shape):
        self.w, self.p = self.add_weight(name="w", shape=(1, 8)), self.add_weight(name="p", shape=(1, 8))
        self.trend = self.add_weight(name="trend", shape=(1, 1))

    def call(self, t):
        return tf.concat([t * self.trend, tf.sin(t * self.w + self.p)], -1)


@family("heldout", "15")
def keras_time2vec():
    x = tf.keras.Input((12, 1), name="t")
    h = L.GRU(8)(Time2Vec()(x))
    return tf.keras.Model(x, L.Dense(1)(L.Dense(12, "selu")(h))), {"t": floats(12, 1)}


class GraphConv(L.Layer):
    """A graph convolution whose road graph is fixed and normalized once."""

    def __init__(self, nodes, width):
        super().__init__()
        a = (np.random.default_rng(4).random((nodes, nodes)) < 0.3) + np.eye(nodes)
        self.graph, self.dense = tf.constant(a / a.sum(1, keepdims=True), tf.float32), L.Dense(width, "relu")

    def call(self, x):
        return self.dense(tf.einsum("ij,bjc->bic", self.graph, x))


@family("heldout", "13")
def keras_road_graph():
    x = tf.keras.Input((9, 4), name="speed")
    h = GraphConv(9, 10)(GraphConv(9, 12)(x))
    return tf.keras.Model(x, L.Dense(2)(h)), {"speed": floats(9, 4)}


@family("heldout", "12", "16")
def keras_deep_cross():
    x, ids = tf.keras.Input((6,), name="x"), tf.keras.Input((3,), dtype=tf.int32, name="ids")
    h = x0 = L.Concatenate()([L.BatchNormalization()(x), L.Flatten()(L.Embedding(40, 4)(ids))])
    for _ in range(2):
        h = L.Add()([L.Multiply()([x0, L.Dense(18)(h)]), h])
    return tf.keras.Model([x, ids], L.Dense(1, "sigmoid")(L.Concatenate()([h, L.PReLU()(L.Dense(16)(x0))]))), {"x": floats(6), "ids": tokens(40, 3)}


def export(model, signature, way):
    opset, *options = way.split("-")
    if "tflite" not in options:
        return tf2onnx.convert.from_keras(model, signature, opset=int(opset))[0]
    call = tf.function(model, input_signature=[tf.TensorSpec((1, *s.shape[1:]), s.dtype) for s in signature])
    lite = tf.lite.TFLiteConverter.from_concrete_functions([call.get_concrete_function()], model).convert()
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(lite)
        file.flush()
        return tf2onnx.convert.from_tflite(file.name, opset=int(opset))[0]


def train_a_little(model, rng):
    for v in model.trainable_variables:
        v.assign(trained_values(v.numpy(), rng))
    for v in model.non_trainable_variables:
        if "moving_mean" in v.name:
            v.assign(0.3 * rng.standard_normal(v.shape))
        elif "moving_variance" in v.name:
            v.assign(rng.uniform(0.4, 2.0, v.shape))


def build(root, only, halves):
    for half, opsets, make in FAMILIES:
        if half not in halves:
            continue
        for way in opsets:
            case = f"{make.__name__}_{way}"
            if only and not any(o in case for o in only):
                continue
            tf.keras.backend.clear_session()
            tf.keras.utils.set_random_seed(sum(map(ord, case)))
            rng = np.random.default_rng(sum(map(ord, case)))
            model, batch = make()
            if "fresh" not in way:
                train_a_little(model, rng)
            signature = [tf.TensorSpec((None, *t.shape[1:]), t.dtype, name=n) for n, t in zip(batch, model.inputs)]

            def redraw():
                for v in model.trainable_variables:
                    v.assign(other_values(v.numpy(), rng))

            try:
                write_case(
                    root,
                    half,
                    case,
                    "tflite tf2onnx" if "tflite" in way else "keras tf2onnx",
                    make.__name__,
                    lambda: export(model, signature, way),
                    redraw,
                    batch,
                )
            except Exception as error:
                print(f"{half}/{case}: no export: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}")
