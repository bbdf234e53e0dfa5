"""Families of models of the part `unseen` that Keras exports. Like those of torch_unseen_libraries.py,
they were written before the rules that they measure."""

import numpy as np
import tensorflow as tf

from common import floats, tokens
from keras_exporter import L, family


@family("unseen", "13", "15-fresh", "13-tflite")
def keras_xception():
    x = tf.keras.Input((16, 16, 3), name="image")
    h = L.BatchNormalization()(x)
    h = L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 3, 2, "same", use_bias=False)(h)))
    for c in (12, 16):
        r = L.BatchNormalization()(L.Conv2D(c, 1, 2, "same", use_bias=False)(h))
        h = L.BatchNormalization()(L.SeparableConv2D(c, 3, padding="same", use_bias=False)(L.ReLU()(h)))
        h = L.Add()([L.MaxPool2D(3, 2, "same")(h), r])
    return tf.keras.Model(x, L.Dense(4, "softmax")(L.GlobalAveragePooling2D()(h))), {"image": floats(16, 16, 3)}


@family("unseen", "13", "14-tflite")
def keras_inception():
    x = tf.keras.Input((16, 16, 3), name="image")
    h = L.Conv2D(8, 3, 2, "same", activation="relu")(L.Rescaling(1 / 255.0)(x))
    a = L.Conv2D(6, 1, activation="relu")(h)
    b = L.Conv2D(6, (3, 1), padding="same", activation="relu")(L.Conv2D(4, (1, 3), padding="same")(h))
    c = L.Conv2D(4, 1)(L.AveragePooling2D(3, 1, "same")(h))
    h = L.BatchNormalization(scale=False)(L.Concatenate()([a, b, c]))
    return tf.keras.Model(x, L.Dense(3)(L.GlobalMaxPooling2D()(h))), {"image": floats(16, 16, 3)}


@family("unseen", "14", "17-fresh")
def keras_tcn_norm():
    x = tf.keras.Input((20, 4), name="series")
    h = L.LayerNormalization()(x)
    for d in (1, 2):
        r = L.SpatialDropout1D(0.1)(L.LayerNormalization()(L.Conv1D(8, 3, dilation_rate=d, padding="causal", activation="relu")(h)))
        h = L.Add()([L.Conv1D(8, 1)(h), r])
    h = L.Concatenate()([L.GlobalMaxPooling1D()(h), L.LSTM(6, unroll=True)(h)])
    return tf.keras.Model(x, L.Dense(1)(h)), {"series": floats(20, 4)}


class Discretized(L.Layer):
    """Distances to fixed centers, with a learned temperature for each center."""

    def build(self, shape):
        self.centers = tf.constant(np.random.default_rng(5).standard_normal((1, 1, 6)), tf.float32)
        self.temperature = self.add_weight(name="temperature", shape=(6,), initializer="ones")

    def call(self, x):
        return tf.exp(-tf.square(x[..., None] - self.centers) * self.temperature)


@family("unseen", "13", "15")
def keras_soft_bins():
    x = tf.keras.Input((5,), name="x")
    h = L.Dense(16, "relu")(L.Flatten()(Discretized()(x)))
    return tf.keras.Model(x, L.Dense(1)(L.Dense(8, "gelu")(L.UnitNormalization()(h)))), {"x": floats(5)}


@family("unseen", "12", "16")
def keras_two_tower():
    user, item = tf.keras.Input((1,), dtype=tf.int32, name="user"), tf.keras.Input((1,), dtype=tf.int32, name="item")
    u = L.Dense(8)(L.Flatten()(L.Embedding(50, 8)(user)))
    i = L.Dense(8)(L.Flatten()(L.Embedding(60, 8)(item)))
    b = L.Add()([L.Flatten()(L.Embedding(50, 1)(user)), L.Flatten()(L.Embedding(60, 1)(item))])
    return tf.keras.Model([user, item], L.Activation("sigmoid")(L.Add()([L.Dot(1, normalize=True)([u, i]), b]))), {"user": tokens(50, 1), "item": tokens(60, 1)}
