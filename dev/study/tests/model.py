#!/usr/bin/env python3
"""A program in the place of a real model: it does one task, tool by tool and by a program."""

import json
import sys

conversation = json.load(sys.stdin)
tools = [tool["name"] for tool in conversation["tools"]]
turns = conversation["turns"]
read = {"path": "/data/app/package.json"}
if "package.json" not in conversation["question"]:
    sys.exit("it knows one task only")
if not turns and "execute_code" in tools:
    code = "return JSON.parse((await mcp.call('files.read_text_file', %s)).content)" % json.dumps(read)
    print(json.dumps({"calls": [{"name": "execute_code", "arguments": {"code": code}}]}))
elif not turns:
    print(json.dumps({"calls": [{"name": "files.read_text_file", "arguments": read}]}))
else:
    print(json.dumps({"answer": json.loads(turns[-1]["results"][0])["version"]}))
