# Sourced by the tools that start programs: a signal that ends the tool ends the program, too, before the tool puts away what it has made.
#     attend COMMAND...      runs a program that ends with the tool; its exit status
#
# A shell acts on a signal when its command in the foreground has ended, so it waits for one in the background; that one ignores SIGINT, and is sent SIGTERM.
# Where the tool defines `tell`, that is called meanwhile, writing to stderr: every two seconds on a terminal, else once a minute.
child='' nap='' starting='' told=''
exec 9>&2                                 # the program's own may go to a file

# Waits until the program has ended; a shell cannot wait for two things at once, so it looks.
tell_on() {
    if [ -t 9 ]; then every=2; else every=60; fi
    seconds_of_it=0
    while kill -0 "$child" 2> /dev/null; do
        sleep 1 9>&- & nap=$!
        wait "$nap"
        nap='' seconds_of_it=$((seconds_of_it + 1))
        [ $((seconds_of_it % every)) -ne 0 ] || tell >&9
    done
}

attend() {
    starting=1                            # and not known yet by its number
    "$@" 9>&- & child=$!
    starting=''
    [ -z "$told" ] || end_children
    if command -v tell > /dev/null; then tell_on; fi
    wait "$child"
    attended=$?
    child=''
    return $attended
}

end_children() {
    trap '' INT TERM HUP
    for pid in $child $nap; do kill "$pid" 2> /dev/null; done
    wait
    exit 130
}
trap 'told=1; [ -n "$starting" ] || end_children' INT TERM HUP
