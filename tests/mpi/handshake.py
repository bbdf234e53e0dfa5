"""The handshake of ranks that connect (trainer/comm/handshake.h) in Python, so that tests can connect as foreign
processes."""
import hashlib, hmac, json, secrets, socket, time


def digest(key, text):
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def frame(value, length=None):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"AMPRANK\n" + (len(body) if length is None else length).to_bytes(4, "big") + body


def read_frame(s):
    """Returns the next frame; None if the connection is closed."""
    data = b""
    end = 12
    while len(data) < end:
        part = s.recv(end - len(data))
        if not part:
            return None
        data += part
        if len(data) == 12:
            assert data[:8] == b"AMPRANK\n", data
            end += int.from_bytes(data[8:], "big")
    return json.loads(data[12:])


def connected(port, family=socket.AF_INET, address=None):
    """Returns a connection to rank 0. Waits if rank 0 is not listening yet."""
    deadline = time.time() + 60
    while True:
        s = socket.socket(family)
        s.settimeout(60)
        try:
            s.connect(address or ("127.0.0.1", port))
            return s
        except ConnectionRefusedError:
            s.close()
            assert time.time() < deadline, "rank 0 does not listen"
            time.sleep(0.02)


def hello_of(rank, size, protocol=2):
    return {"protocol": protocol, "rank": rank, "size": size, "job": "", "host": "stranger", "pid": 7, "port": 1, "addresses": ["127.0.0.1"]}


def hello_frame(challenge, hello, token, purpose="ranks to rank 0"):
    key, nonce, text = digest(token, "onnx-amp-finetune: " + purpose), secrets.token_hex(16), json.dumps(hello)
    return frame({"hello": text, "nonce": nonce, "proof": digest(key, f"hello {challenge} {nonce} {text}")})


def say_hello(s, hello, token, purpose="ranks to rank 0"):
    """Sends a hello with the proof of the token. Returns rank 0's next frame; None if rank 0 closes the connection."""
    s.sendall(hello_frame(read_frame(s)["challenge"], hello, token, purpose))
    return read_frame(s)
