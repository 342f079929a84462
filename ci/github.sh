#!/usr/bin/env bash
# The step of action.yml: installs dpaudit, runs the audit, and tells GitHub what it found. The exit
# code is that of the audit. Inputs: AUDIT_CONFIG, AUDIT_ARGS, AUDIT_OUTPUT, AUDIT_PACKAGE.
set -euo pipefail

# The checkout may hold a `pip` or a `json.py`: no Python may take the current folder for its own.
PYTHONPATH='' python -P -m pip install --quiet "${AUDIT_PACKAGE:-$GITHUB_ACTION_PATH}"

out=${AUDIT_OUTPUT:-dpaudit-out/ci}
read -r -d '' -a more <<<"${AUDIT_ARGS:-}" || true  # it fails at the end of its input
rm -f "$out/annotations.txt"

# A label of a config may look like a workflow command: none is obeyed while the audit prints.
token=$(python -I -c 'import secrets; print(secrets.token_hex(16))')
echo "::stop-commands::$token"
code=0
dpaudit run ${AUDIT_CONFIG:+"$AUDIT_CONFIG"} -o "$out" \
    --report "sarif=$out/dpaudit.sarif" \
    --report "junit=$out/junit.xml" \
    --report "badge=$out/badge.json" \
    --report "github=$out/annotations.txt" \
    --report "github-summary=$GITHUB_STEP_SUMMARY" \
    ${more[@]+"${more[@]}"} || code=$?
echo "::$token::"
cat "$out/annotations.txt" || echo "::error title=dpaudit::The audit did not start: see the log."

case $code in
1) outcome=stop ;;
0 | 4) outcome=$(python -I -c 'import json, sys; print(json.load(open(sys.argv[1]))["outcome"])' \
    "$out/record.json") ;;
*) outcome=error ;;
esac
cat >>"$GITHUB_OUTPUT" <<END
exit-code=$code
outcome=$outcome
sarif=$out/dpaudit.sarif
junit=$out/junit.xml
badge=$out/badge.json
report=$out/report.html
END
exit "$code"
