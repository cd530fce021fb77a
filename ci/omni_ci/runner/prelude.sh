# shellcheck shell=bash
# What one bash needs to run items one after another and to write each status aside. bash 3.2 is enough.
#
# The items follow this text, each between a begin and an end, so that `cd`, `export` and `set` persist. Nothing
# here relies on an option, variable or function that an item may change, and no subshell of one writes a record.
set -E -o pipefail
: "${__omni_records:?}"
__omni_item=0 __omni_status=0 __omni_failed=0 __omni_moved='' __omni_where=''
__omni_user_err='' __omni_user_level=0

# kind, item, status, time, text: five fields, each ended by a NUL
__omni_record() {
  builtin printf '%s\0' "$1" "$__omni_item" "$2" "${EPOCHREALTIME:-$SECONDS}" "$3" >>"$__omni_records" || :
}

__omni_begin() {
  __omni_item=$1 __omni_status=0 __omni_moved='' __omni_where=''
  __omni_record begin 0 "$PWD"
  # apart: where nobody reads any more, SIGPIPE ends this and not the job
  (builtin printf '%s\n' "$2") || :
}

__omni_end() {
  __omni_keep "$1"
  # `cd missing && tests`: no trap hears of it, and the next item would run in the wrong folder
  if [[ "$1" != 0 ]] && [[ -n "$__omni_moved" ]]; then
    __omni_fatal "$__omni_where"
  fi
  __omni_record end "$__omni_status" "$PWD"
  case $__omni_failed in
    0 | 5) if [[ "$__omni_status" != 0 ]]; then __omni_failed=$__omni_status; fi ;;
  esac
}

# The first status that is neither 0 nor 5 (no tests) stays.
__omni_keep() {
  case $__omni_status in
    0 | 5) if [[ "$1" != 0 ]]; then __omni_status=$1; fi ;;
  esac
}

__omni_fatal() {
  __omni_record fatal "$__omni_status" "$1"
  builtin exit "$__omni_status"
}

__omni_in_subshell() {
  [[ "$BASH_SUBSHELL" != 0 ]] || [[ "${BASHPID:-$$}" != "$$" ]]
}

# Hears every failure that bash itself does not excuse. Fails where the user's own handler is to be called.
__omni_err() {
  if ! __omni_in_subshell; then
    __omni_keep "$1"
    __omni_record failed "$1" "$2"
    # as bash prints the last line of __omni_move
    # shellcheck disable=SC2016
    case $2 in
      'return "$__omni_moved"') __omni_fatal "$__omni_where" ;;
      cd | 'cd '* | 'pushd '* | 'popd'* | 'builtin cd '* | 'command cd '* | 'source '* | '. '* | 'export '*)
        __omni_fatal "$2"
        ;;
    esac
  fi
  # the item as a whole fails too: bash would not have called the handler for that
  case $2 in 'eval -- '*) return 0 ;; esac
  if [[ -z "$__omni_user_err" ]] || [[ "$BASH_SUBSHELL" != "$__omni_user_level" ]]; then return 0; fi
  return "$1"
}

# Hears of the end before a user's handler of EXIT, which may well change the status; hands that on to it.
__omni_left() {
  if [[ "$1" != 0 ]] && ! __omni_in_subshell; then __omni_record failed "$1" exit; fi
  return "$1"
}

# A user's ERR handler is called by ours instead of replacing it.
trap() {
  local __omni_action __omni_signal __omni_before=''
  local -a __omni_others=()
  case ${1-} in --) shift ;; esac
  # a question, not a setting
  if [[ "$#" = 0 ]] || [[ "${1#-[lpP]}" != "$1" ]]; then
    # shellcheck disable=SC2064
    builtin trap "$@"
    return
  fi
  if [[ "$#" = 1 ]]; then set -- - "$1"; fi
  __omni_action=$1
  shift
  for __omni_signal in "$@"; do
    case $__omni_signal in
      ERR | err | SIGERR)
        if [[ "$__omni_action" = - ]]; then __omni_action=''; fi
        __omni_user_err=$__omni_action __omni_user_level=$BASH_SUBSHELL
        ;;
      EXIT | exit | SIGEXIT | 0)
        case $__omni_action in
          - | '') ;;
          # before `&&`, so that `set -e` and ERR let the handler see the status
          *) __omni_before='__omni_left "$?" && :; ' ;;
        esac
        # shellcheck disable=SC2064
        builtin trap -- "$__omni_before$__omni_action" EXIT
        ;;
      *) __omni_others[${#__omni_others[@]}]=$__omni_signal ;;
    esac
  done
  if [[ "${#__omni_others[@]}" != 0 ]]; then builtin trap -- "$__omni_action" "${__omni_others[@]}"; fi
}

# Remembers that the folder is not the one that was asked for, and which ones were.
__omni_move() {
  if builtin "$@"; then
    __omni_moved=''
    if ! __omni_in_subshell; then __omni_record moved 0 "$PWD"; fi
    return 0
  else
    __omni_moved=$?
  fi
  __omni_where=$*
  return "$__omni_moved"
}
cd() { __omni_move cd "$@"; }
pushd() { __omni_move pushd "$@"; }
popd() { __omni_move popd "$@"; }

builtin trap '__omni_err "$?" "$BASH_COMMAND" || eval "$__omni_user_err"' ERR
