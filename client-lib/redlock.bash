# Completion of redlock(1) for bash.
_redlock() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' i options
    local commands="run acquire release hold status metrics top nodes leases leader watch history check whoami"
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --socket) [[ ${COMP_WORDS[i + 1]} == = ]] && ((i++)) # bash splits --socket=PATH
            ((i++)) ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    # Behind "--" stands a command of its own.
    for ((; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
            ((i + 1 < COMP_CWORD)) && mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
    done

    case $previous in
    --socket)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --for)
        mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=)" -- "$current")
        return
        ;;
    --signal)
        mapfile -t COMPREPLY < <(compgen -W "TERM KILL INT HUP USR1 USR2" -- "$current")
        return
        ;;
    --bless)
        mapfile -t COMPREPLY < <(compgen -W "$(redlock nodes 2>/dev/null | awk 'NR > 1 && /^[^ ]/ { print $1 }')" -- "$current")
        return
        ;;
    -w | --wait | --timeout | --id | --fence | --lease | -t | --ttl | -E | --conflict-exit-code | --grace | --linger | --pause | --unit | --data | --max-hold | --min-hold | --count | -c | --command | --exec-leader | --exec-follower)
        return
        ;;
    esac

    case $command in
    '') options="$commands help --socket --help --version" ;;
    help) options=$commands ;;
    run)
        options="--nonblock --wait --ttl --conflict-exit-code --grace --data --max-hold --min-hold --linger --close --quiet --verbose --command --help --"
        ;;
    acquire) options="--for --nonblock --wait --ttl --conflict-exit-code --data --signal --quiet --help" ;;
    release) options="--id --fence --help" ;;
    check) options="--id --fence --lease --timeout --json --help" ;;
    hold) options="--ttl --grace --linger --pause --unit --data --exec-leader --exec-follower --once --help" ;;
    metrics) options="--help" ;;
    top) options="--count --once --help" ;;
    history) options="--count --json --help" ;;
    nodes) options="--bless --json --help" ;;
    *) options="--json --help" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
}
complete -F _redlock redlock
