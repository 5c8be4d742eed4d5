# What tests under mpirun share.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # containers
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_plm_rsh_agent=false
export OMPI_MCA_mpi_yield_when_idle=1 TMPDIR=/tmp # names of sockets are short
losses() { # FOLDER: stage, step, name and value of every loss that was logged
    cat "$1"/first-task/events.jsonl "$1"/cwd/events.jsonl | grep '"event":"step"' |
        sed -E 's/.*"task":([0-9]+),"stage":"([a-z]+)","step":([0-9]+).*"loss":\{([^}]*)\}.*/\1 \2 \3 \4/' | tr -d '"' | tr , ' '
}
# compare_losses ONE MANY LEAST APART: at least LEAST losses, apart by APART of their value at most
compare_losses() {
    losses "$1" >one.txt
    losses "$2" >many.txt
    paste -d' ' one.txt many.txt | awk -v name="$2" -v least="$3" -v allowed="$4" '
        {
            half = NF / 2
            for (i = 1; i <= half; i++) {
                split($i, a, ":"); split($(i + half), b, ":")
                if (a[1] != b[1]) { print "lines differ: " $0; bad = 1; exit }
                if (a[2] == "" || a[2] == "null") continue
                apart = a[2] - b[2]; if (apart < 0) apart = -apart
                size = a[2] < 0 ? -a[2] : a[2]; if (size < 0.001) size = 0.001
                if (apart / size > most) most = apart / size
                values++
            }
        }
        END {
            printf "%s: %d losses, apart by %.1e at most\n", name, values, most
            exit bad || values < least || most > allowed
        }'
}
