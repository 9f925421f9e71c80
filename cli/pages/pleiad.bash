# Completion of the command pleiad for bash. tools/cli_pages.py makes this file.
_pleiad() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} known= i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "launch info options convert export import explain generate inspect run completion help --help --version" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]}:$before in
    help:*) COMPREPLY=($(compgen -W "launch info options convert export import explain generate inspect run completion help" -- "$word")) && return ;;
    launch:--bind) COMPREPLY=($(compgen -W "core none" -- "$word")) && return ;;
    generate:generate) COMPREPLY=($(compgen -W "cifar10" -- "$word")) && return ;;
    completion:completion) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) && return ;;
  esac
  case ${COMP_WORDS[1]} in
    launch) known="-h --help -n --ranks --hostfile --timeout --grace --stop-timeout --restart --bind --tag-output --mpi -v --verbose" ;;
    info) known="-h --help" ;;
    options) known="-h --help" ;;
    convert) known="-h --help --mean --type --shape --to-shape --classes --no-label --header --separator --to-separator --datasets --class-names --digits" ;;
    export) known="-h --help --job --layout" ;;
    import) known="-h --help --net --job --step --module --rule" ;;
    explain) known="-h --help -n --ranks -b --batch --plan --split --grid --layers" ;;
    generate) known="-h --help --train --test --seed" ;;
    inspect) known="-h --help --numbers --verify --net" ;;
    run) known="-h --help --conf --resume --test --display --singa_conf --singa_job" ;;
    completion) known="-h --help" ;;
    help) known="" ;;
  esac
  if [[ ${COMP_WORDS[1]} == launch ]]; then
    # The command that launch runs, and its arguments, follow the options.
    for ((i = 2; i < COMP_CWORD; ++i)); do
      case ${COMP_WORDS[i]} in
        -n | --ranks | --hostfile | --timeout | --grace | --stop-timeout | --restart | --bind) ((++i)) ;;
        -*) ;;
        *) return ;;
      esac
    done
    if ((i == COMP_CWORD)) && [[ $word != -* ]]; then
      COMPREPLY=($(compgen -c -- "$word"))
      return
    fi
  fi
  [[ $word != -* ]] || COMPREPLY=($(compgen -W "$known" -- "$word"))
}
complete -o default -F _pleiad pleiad
