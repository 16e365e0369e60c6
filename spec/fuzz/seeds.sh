#!/bin/sh
# Makes the seeds in spec/fuzz/corpus anew, from what Kafka wrote (spec/data/kafka) and from small stores of our own.
#     spec/fuzz/seeds.sh build/fuzz-seeds
set -e
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf spec/fuzz/corpus
for target in batch codecs files config control partition store import; do mkdir -p "spec/fuzz/corpus/$target"; done
for archive in spec/data/kafka/*.tar.gz; do
    name=${archive##*/}; name=${name%.tar.gz}
    mkdir "$work/$name"
    tar xzf "$archive" -C "$work/$name"
    for partition in "$work/$name"/*-0; do "$program" spec/fuzz/corpus "$name" "$work/$name" "$partition"; done
done
"$program" spec/fuzz/corpus
