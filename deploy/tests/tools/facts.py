"""Asks the libraries of others about the files of deploy/, and prints what they say as JSON.

facts.py dashboard FILE    the dashboard, as Grafana's types keep it
facts.py compose FILE      the compose file, as the compose specification reads it
facts.py lint CHART        what Helm's linter finds
facts.py render CHART      the objects of the chart for the values on standard input, or why there are none
facts.py kubernetes        what is wrong with the objects on standard input, by the schemas of two versions of Kubernetes
"""

import json
import sys

import yaml

KUBERNETES = ("1.29", "1.37")
"""Oldest and newest version that the chart is checked for."""


def dashboard(path):
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import Dashboard

    plugins.register_default_plugins()
    with open(path, encoding="utf-8") as file:
        return json.loads(JSONEncoder().encode(Dashboard.from_json(json.load(file))))


def compose(path):
    from compose_spec.models import ComposeSpecification

    with open(path, encoding="utf-8") as file:
        given = yaml.safe_load(file)
    given = {name: value for name, value in given.items() if not name.startswith("x-")}
    read = ComposeSpecification.model_validate(given, extra="forbid")
    return read.model_dump(mode="json", by_alias=True, exclude_unset=True)


def lint(path):
    import helm_python

    return helm_python.lint(path, strict=True)


def render(path):
    from helm_python import Chart, HelmError

    values = json.load(sys.stdin)
    with Chart.load(path) as chart:
        try:
            chart.validate_schema(values)
            files = chart.render(values=values, name="test", namespace="relays")
        except HelmError as error:
            return {"error": str(error)}
    texts = [text for name, text in sorted(files.items()) if name.endswith(".yaml")]
    return {"objects": [item for text in texts for item in yaml.safe_load_all(text) if item]}


def kubernetes():
    from kubernetes_validate import SchemaNotFoundError, ValidationError, validate

    wrong = []
    for item in json.load(sys.stdin):
        for version in KUBERNETES:
            try:
                validate(item, version, strict=True)
            except ValidationError as error:
                wrong.append(f"{item['kind']} in {version}: {error.json_path}: {error.message}")
            except SchemaNotFoundError:
                wrong.append(f"{item['kind']}: not of Kubernetes")
    return wrong


if __name__ == "__main__":
    COMMANDS = {item.__name__: item for item in (dashboard, compose, lint, render, kubernetes)}
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
