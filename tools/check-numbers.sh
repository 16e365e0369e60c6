#!/bin/sh
# What is given to make, looked at before anything else: exit 2 and a message unless each value is empty, or a whole number above 0.
#     tools/check-numbers.sh NAME VALUE [NAME VALUE]...
while [ $# -gt 1 ]; do
    case $2 in
    *[!0-9]*|0*|??????????*)
        echo "$1: a whole number from 1 to 999999999 expected, got '$2'" >&2
        exit 2 ;;
    esac
    shift 2
done
