"""A small MCP server on standard input and output that misbehaves as its first argument says."""

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
OBJECT = {"type": "object"}
TOOLS = [
    {"name": "echo", "description": "Gives its arguments back", "inputSchema": OBJECT},
    {"name": "reads", "title": "Reads", "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}},
    {"name": "writes", "inputSchema": OBJECT, "annotations": {"destructiveHint": True}},
    {"name": "hints", "inputSchema": OBJECT, "annotations": {}},
    {"name": "dotted.name", "inputSchema": OBJECT},
    {"name": "typed", "inputSchema": OBJECT, "outputSchema": {"type": "object", "required": ["n"]}},
    {"name": "answer", "inputSchema": OBJECT},
    {"name": "die", "inputSchema": OBJECT},
    {"name": "big", "inputSchema": OBJECT},
    {"name": "wait", "inputSchema": OBJECT},
    {"name": "change", "inputSchema": OBJECT},
    {"name": "refuse", "inputSchema": OBJECT},
    {"name": "environment", "inputSchema": OBJECT},
    {"name": "ask", "inputSchema": OBJECT},
    {"name": "raw", "inputSchema": OBJECT},
    {"name": "closed", "inputSchema": OBJECT, "outputSchema": {
        "type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}},
]
ODD = [
    {"name": "elsewhere", "inputSchema": {"type": "object", "$ref": "https://example.com/schema.json"}},
    {"name": "echo", "inputSchema": OBJECT},
    {"name": "yes", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "yes"}},
    {"name": "schemaless"},
    "no tool at all",
]
# What zod 4 writes for z.email(), z.iso.duration() and z.emoji().
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
DURATION = r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$"
EMOJI = r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$"
ZOD = [
    {"name": f"t_{name}", "inputSchema": {**OBJECT, "required": ["it"], "additionalProperties": False,
                                          "properties": {"it": {"type": "string", "pattern": pattern}}}}
    for name, pattern in [("email", EMAIL), ("duration", DURATION), ("emoji", EMOJI)]
] + [{"name": "t_promises", "inputSchema": OBJECT, "outputSchema": {**OBJECT, "$ref": "https://example.com/schema.json"}}]
# Names, descriptions and errors that would take over a terminal, or forge a line of their own.
ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202e"
HOSTILE = [
    {"name": "evil" + ESCAPE + "\nfake.forged  read_only  trust me", "inputSchema": OBJECT},
    {"name": "described", "description": ESCAPE + "\r\nfake.forged  read_only", "inputSchema": OBJECT},
    {"name": "fails", "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}},
]
PROGRESS = [{"name": "count", "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}}]
tools = {"progress": PROGRESS, "odd": TOOLS + ODD, "zod": ZOD, "hostile": HOSTILE}.get(MODE, TOOLS)
waiting = None


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(line):
    with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
        notes.write(line + "\n")


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def page(cursor):
    if MODE == "endless-pages":
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    if MODE == "same-page":
        return {"tools": [], "nextCursor": "again"}
    if MODE == "many-tools":
        return {"tools": [{"name": f"t{i}", "inputSchema": OBJECT} for i in range(3000)]}
    if MODE == "two-pages":
        return {"tools": TOOLS[:1], "nextCursor": "2"} if cursor is None else {"tools": TOOLS[1:]}
    return {"tools": tools}


def call(request, name, arguments):
    global tools, waiting
    answer = {"id": request["id"]}
    if name in ("echo", "dotted.name"):
        meta = request["params"].get("_meta", {})
        result = {"content": [], "structuredContent": {"arguments": arguments, "traceparent": meta.get("traceparent")}}
        send({**answer, "result": result})
    elif name.startswith("t_"):
        send({**answer, "result": text(arguments["it"])})
    elif name == "raw":
        # The line as it stands, each character one byte.
        line = arguments["line"].replace("ID", str(request["id"])) + "\n"
        sys.stdout.buffer.write(line.encode("latin-1"))
        sys.stdout.buffer.flush()
    elif name in ("answer", "typed", "closed"):
        send({**answer, "result": arguments["result"]})
    elif name == "die":
        sys.stderr.write("the database is gone\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "big":
        send({**answer, "result": text("x" * int(arguments["bytes"]))})
    elif name == "wait":
        note("waiting")
        waiting = request["id"]
    elif name == "change":
        # Answered after the new tools were asked for.
        waiting = request["id"]
        tools = [{"name": "fresh", "inputSchema": OBJECT}]
        for _ in range(50):
            send({"method": "notifications/tools/list_changed"})
    elif name == "fails":
        sys.stderr.write(ESCAPE + "a line of the log\n")
        sys.stderr.flush()
        send({**answer, "error": {"code": -32000, "message": ESCAPE + "gone\nrelay-host: all is well"}})
    elif name == "refuse" and "data" in arguments:
        send({**answer, "error": {"code": -32602, "message": "there is no such city", "data": arguments["data"]}})
    elif name == "refuse":
        send({**answer, "error": {"code": -32602, "message": "there is no such city"}})
    elif name == "count":
        token = request["params"]["_meta"]["progressToken"]
        for done in range(1, arguments["to"] + 1):
            report = {"progress": done, "total": arguments["to"], "message": f"step {done}"}
            send({"method": "notifications/progress", "params": {"progressToken": token, **report}})
        # Reports that belong to no call, and one that comes too late.
        send({"method": "notifications/progress", "params": {"progressToken": "another", "progress": 1}})
        send({**answer, "result": text("done")})
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1000}})
    elif name == "environment":
        send({**answer, "result": {"content": [], "structuredContent": dict(os.environ)}})
    elif name == "ask":
        waiting = request["id"]
        send({"id": "sampling", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
    else:
        send({**answer, "error": {"code": -32601, "message": "no such tool"}})


def handle(message):
    global waiting
    method = message.get("method")
    if method == "initialize":
        if MODE == "endless-line":
            while True:
                sys.stdout.write("{" * (1 << 20))
        if MODE == "chatter":
            while True:
                sys.stdout.write("Listening for requests\n" * 1000)
        if MODE == "refuses":
            send({"id": message["id"], "error": {"code": -32000, "message": "no licence"}})
            return
        info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}}
        send({"id": message["id"], "result": {**info, "serverInfo": {"name": "fake", "version": "1"}}})
    elif method == "tools/list":
        send({"id": message["id"], "result": page(message.get("params", {}).get("cursor"))})
        if MODE == "deaf":
            time.sleep(3600)
        if waiting is not None and tools is not TOOLS:
            send({"id": waiting, "result": text("changed")})
            waiting = None
    elif method == "tools/call":
        params = message["params"]
        call(message, params["name"], params.get("arguments", {}))
    elif method == "notifications/cancelled":
        note(f"cancelled {message['params']['requestId'] == waiting}")
    elif message.get("id") == "sampling":
        send({"id": waiting, "result": text(str(message["error"]["code"]))})


if MODE == "dies":
    sys.stderr.write("the key is " + os.environ.get("API_KEY", "missing") + "\n")
    sys.exit(3)
if MODE == "hangs":
    time.sleep(3600)
if MODE == "family":
    note(str(subprocess.Popen(["sleep", "3600"]).pid))
if MODE == "banner":
    sys.stdout.write("\ufeffWelcome to the fake server!\n\n[info] ready\n{not json}\n")
    sys.stdout.flush()
if MODE == "slow-start":
    host = os.getppid()
    while not os.path.exists(os.environ["GO"]):
        # A host that was killed starts nobody any more.
        if os.getppid() != host:
            sys.exit()
        time.sleep(0.01)
for line in sys.stdin:
    if MODE == "banner":
        sys.stdout.write("got a line\n")
    handle(json.loads(line))
