#!/usr/bin/env python3
"""Writes events/, the golden data of tests/run/event_file_test.cc, with TensorBoard's own messages and record writer, and
reads it back with TensorBoard's reader. Needs the package tensorboard.

--read FOLDER: prints the events that TensorBoard's reader finds in a run's folder, one line per tag. Fails if a step occurs
twice."""
import argparse
import os

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "events.out.tfevents.000000000001"


def write(folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, NAME), "wb") as file:
        records = RecordWriter(file)

        def put(**fields):
            records.write(event_pb2.Event(**fields).SerializeToString())

        put(wall_time=1000, file_version="brain.Event:2")
        put(wall_time=1000, step=1, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))
        for step in (1, 2, 3):
            values = [summary_pb2.Summary.Value(tag="train/loss", simple_value=1 / step),
                      summary_pb2.Summary.Value(tag="train/learning_rate", simple_value=1e-4)]
            put(wall_time=1000.5 + step, step=step, summary=summary_pb2.Summary(value=values))
        records.flush()


def read(folder):
    events = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    for tag in sorted(events.Tags()["scalars"]):
        points = events.Scalars(tag)
        steps = [p.step for p in points]
        assert len(set(steps)) == len(steps) and steps == sorted(steps), f"{tag}: steps {steps}"
        print(f"{tag}: {len(points)} points, steps {steps[0]} to {steps[-1]}, last {points[-1].value:.6g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--read", metavar="FOLDER")
    folder = parser.parse_args().read
    if not folder:
        folder = os.path.join(HERE, "events")
        write(folder)
    read(folder)
