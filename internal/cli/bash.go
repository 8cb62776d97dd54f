package cli

// bashWords replaces a function of cobra's script, which needs the package
// bash-completion, by one that does without where there is none: it joins again
// what bash splits at = and :, so that one word of the line is one word. It keeps
// to what bash 3.2 knows, which macOS has.
const bashWords = `
__windlass_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local i w rest=$COMP_LINE glue=0 n=0
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        w=${COMP_WORDS[i]}
        if ((n > 1)) && [[ $rest == "$w"* ]] && { ((glue)) || [[ -n $w && -z ${w//[=:]/} ]]; }; then
            words[n - 1]+=$w
        else
            words[n]=$w
            n=$((n + 1))
        fi
        glue=0
        if [[ -n $w && -z ${w//[=:]/} ]]; then
            glue=1
        fi
        if ((i <= COMP_CWORD)); then
            cword=$((n - 1))
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$w"}
    done
    cur=${words[cword]}
    prev=
    if ((cword > 0)); then
        prev=${words[cword - 1]}
    fi
}
`
