#!/bin/sh
case $1 in
    -m) exec "$TESTS_PYTHON" "${0%.sh}.py" "$@" ;;
    *) exec "$TESTS_PYTHON" "$@" ;;
esac
