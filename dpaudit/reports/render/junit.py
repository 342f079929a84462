"""JUnit XML, which CI services show as tests: one for each claim and gate, and a baseline.

A false claim, a failed gate and an expired waiver are failures. An inconclusive gate, and a run
without a result, are errors. A claim that was not tested is skipped, and so is what is waived or
accepted, with the reason: neither may look like a test that passed.
"""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from dpaudit.reports.ci import CiCheck, Format, Run, State

_ELEMENTS: dict[State, str] = {
    "error": "error",
    "fail": "failure",
    "inconclusive": "error",
    "accepted": "skipped",
    "untested": "skipped",
}


def _render(run: Run) -> str:
    tests = [check for check in run.checks if check.state != "noticed"]
    kinds = [_ELEMENTS.get(check.state) for check in tests]
    root = Xml.Element("testsuites", name=f"Privacy audit: {run.word.shown}")
    suite = Xml.SubElement(
        root,
        "testsuite",
        name=run.path,
        package="dpaudit",
        id="0",
        tests=str(len(tests)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{run.seconds:.3f}",
        timestamp=run.started.partition("+")[0],
        hostname="localhost",  # a report names no machine
    )
    properties = Xml.SubElement(suite, "properties")
    for name, value in (
        ("dpaudit", run.tool),
        ("outcome", run.outcome),
        ("exit_code", str(run.exit_code)),
    ):
        Xml.SubElement(properties, "property", name=name, value=value)
    for check in tests:
        _add(suite, check)
    noticed = [check.text for check in run.checks if check.state == "noticed"]
    Xml.SubElement(suite, "system-out").text = "\n".join(
        [f"{run.word.shown}: {run.headline}", *noticed]
    )
    Xml.SubElement(suite, "system-err")
    Xml.indent(root, " ")
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: Xml.Element, check: CiCheck) -> None:
    test = Xml.SubElement(suite, "testcase", classname=check.kind, name=check.name, time="0")
    element = _ELEMENTS.get(check.state)
    if element:
        problem = Xml.SubElement(test, element, type=check.rule.id, message=check.text)
        problem.text = f"{check.path}:{check.place.line}: {check.text}"


render = Format("JUnit XML: a test for each claim and gate", _render)
