#!/usr/bin/env python3
"""Opens foreign connections while ranks connect: silent ones, those of other programs and of processes without the token, and
recorded frames. The run must end with exit 0 and the same bytes as without them, and must not take longer. Ranks whose tokens
differ must end with a message that says so."""
import argparse, os, shutil, signal, socket, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi"))
from handshake import connected, frame, hello_frame, hello_of, read_frame, say_hello
from processes import children_of, environment_without_ranks, free_port
from processes import ended as processes_ended
from small_texts import write_texts

parser = argparse.ArgumentParser()
parser.add_argument("--binary", required=True)
parser.add_argument("--model", required=True)
parser.add_argument("--late", type=float, default=5, help="seconds by which strangers may delay a run; a silent connection is closed after 5 s")
args = parser.parse_args()
args.binary, args.model = os.path.abspath(args.binary), os.path.abspath(args.model)
environment = environment_without_ranks()
work = tempfile.mkdtemp()
write_texts(work)
TOKEN = "b5c0d5b8a3f44e0fb2d1c6a7e9908f31"


def start(name, rank, size, port, token, *more, host="127.0.0.1"):
    command = [args.binary, args.model, "--train", "train.csv", "--vocab", "vocab.txt", "--text_columns", "text", "--output_dir", name,
               "--max_seq_len", "16", "--lr", "1e-3", "--device", "cpu", "--batch_size", "4", "--max_steps", "10", *more]
    variables = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": host, "MASTER_PORT": str(port)} if size else {}
    if token:
        variables["ONNX_AMP_RANK_TOKEN"] = token
    return subprocess.Popen(command, cwd=work, env={**environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(processes):
    """Returns (exit code, stderr) of each process."""
    return [(code, err) for code, _, err in processes_ended(processes, 120)]


def recorded_hello():
    """Returns the frame by which a real rank 1 with the token says hello, to a listener that only records it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start("none", 1, 2, listener.getsockname()[1], TOKEN)
        listener.settimeout(60)
        s, _ = listener.accept()
        with s:
            s.settimeout(60)
            s.sendall(frame({"challenge": "0" * 32}))
            hello = read_frame(s)
        process.kill()
        process.communicate()
    assert hello["proof"], hello
    return hello


def meet(name, strangers, token=TOKEN):
    """Runs ranks 0 and 1, with foreign connections between their starts. Returns the seconds from then on, and the
    messages of rank 0."""
    port = free_port()
    first = start(name, 0, 2, port, token)
    connected(port).close()  # returns as soon as rank 0 listens
    kept = strangers(port)
    before = time.time()
    second = start(name, 1, 2, port, token)
    results = ended([first, second])
    assert [code for code, _ in results] == [0, 0], results
    for s in kept:
        s.close()
    return time.time() - before, results[0][1]


def crowd(port):
    """Opens every kind of foreign connection. Returns the connections that stay open."""
    kept = [connected(port) for _ in range(12)]  # silent
    sent = [b"GET / HTTP/1.1\r\nHost: rank0\r\n\r\n", os.urandom(5000), b"\x16\x03\x01\x02\x00\x01", frame(b"", 0xFFFFFFFF), frame(b"[" * 60000),
            frame(b"{"), frame({}), b"AMPRANK\n\0\0"]
    sent += [frame(h) for h in (hello_of(1, 3), hello_of(1, 2, 1), hello_of(99, 2), hello_of(0, 2), hello_of("1", [2]))]
    sent.append(frame(RECORDED))
    for data in sent:
        s = connected(port)
        s.sendall(data)
        kept.append(s)
    for token in ("", "another token", TOKEN + "0"):
        for hello in (hello_of(1, 2), hello_of(1, 3), hello_of(1, 2, 9)):  # an impostor of rank 1 first
            s = connected(port)
            assert say_hello(s, hello, token) == {"refused": "the proof is wrong"}
            kept.append(s)
    for hello in (RECORDED, {**RECORDED, "hello": '{"rank":1}'}):
        s = connected(port)
        read_frame(s)
        s.sendall(frame(hello))
        assert read_frame(s) == {"refused": "the proof is wrong"}
        kept.append(s)
    return kept


def model(name):
    with open(f"{work}/{name}/model.onnx", "rb") as file:
        return file.read()


try:
    RECORDED = recorded_hello()
    alone, said = min((meet(f"alone{i}", lambda port: []) for i in range(2)), key=lambda result: result[0])
    assert "closed before the handshake" in said, said  # the connection that waited for rank 0
    crowded, said = meet("crowded", crowd)
    assert model("alone0") == model("crowded"), "another model"
    assert " connections were not from ranks of this run: 13 silent, 1 closed before the handshake, 6 with bytes of other programs, 18 without" \
        in said, said
    assert crowded < alone + args.late, (crowded, alone)
    # Without a token, connections that do not follow the protocol are refused, too.
    open_run, said = meet("open", lambda port: [connected(port) for _ in range(12)], token="")
    assert model("alone0") == model("open") and "12 silent" in said and open_run < alone + args.late, (said, open_run, alone)

    # A rank that accepts connections from other machines without a token prints a warning.
    for token in (TOKEN, ""):
        port = free_port()
        results = ended([start(f"all{len(token)}", r, 2, port, token, host="0.0.0.0") for r in range(2)])
        assert [code for code, _ in results] == [0, 0] and model(f"all{len(token)}") == model("alone0"), results
        assert [f"rank 0 listens at port {port} of all addresses" in err for _, err in results] == [token == "", False], results

    # With the token, this handshake is accepted, so the refusals above have no other reason.
    port = free_port()
    first = start("none", 0, 2, port, TOKEN)
    answer = say_hello(connected(port), hello_of(1, 3), TOKEN)
    assert "is one of 3 (WORLD_SIZE), rank 0 one of 2" in answer["answer"], answer
    (code, err), = ended([first])
    assert code == 10 and "E_RANKS" in err and "rank 1 (host stranger, process 7)" in err, (code, err)

    # Ranks with different tokens must end.
    port = free_port()
    results = ended([start("none", r, 2, port, TOKEN * (1 - r), "--heartbeat", "0.5") for r in range(2)])
    assert [code for code, _ in results] == [10, 10], results
    assert "without the run's token" in results[0][1] and "E_RANKS" in results[0][1], results
    assert "the tokens differ" in results[1][1] and "ONNX_AMP_RANK_TOKEN or --rank_token_file" in results[1][1], results

    # One rank reads the token from a file, the other from a variable. Then files that do not contain a token.
    with open(f"{work}/token", "w") as file:
        file.write(TOKEN + "\n")
    port = free_port()
    results = ended([start("file", 0, 2, port, "", "--rank_token_file", "token"), start("file", 1, 2, port, TOKEN)])
    assert [code for code, _ in results] == [0, 0] and model("file") == model("alone0"), results
    open(f"{work}/empty", "w").close()
    for file, code in (("empty", 2), ("nowhere", 2), (".", 2), ("/dev/zero", 2), (args.binary, 2)):
        (got, err), = ended([start("none", 0, 2, free_port(), TOKEN, "--rank_token_file", file)])
        assert got == code and file in err, (file, got, err)

    # --gpus makes a token for its ranks, which is in no command line.
    process = start("gpus", 0, 0, 0, "", "--gpus", "0,1", "--max_steps", "100000")
    deadline = time.time() + 60
    while not os.path.exists(f"{work}/gpus/metrics.jsonl"):
        assert time.time() < deadline and process.poll() is None, ended([process])
        time.sleep(0.1)
    tokens = set()
    for child in children_of(process.pid):
        with open(f"/proc/{child}/environ") as variables, open(f"/proc/{child}/cmdline") as line:
            tokens |= {v.partition("=")[2] for v in variables.read().split("\0") if v.startswith("ONNX_AMP_RANK_TOKEN=")}
            assert not any(token in line.read() for token in tokens)
    assert len(tokens) == 1 and len(tokens.pop()) == 32, tokens
    process.send_signal(signal.SIGTERM)
    (code, err), = ended([process])
    assert code == 75, (code, err)
    print(f"ok: {alone:.2f} s without strangers, {crowded:.2f} s with 38")
finally:
    shutil.rmtree(work)
