# shellcheck shell=bash
# Sourced by the scripts: goes to the top of the tree and names the places
# outside it that they write to.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# cache is shared by all clones of this user.
cache="${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/windlass"
# clone_cache is this clone's own part of it.
# shellcheck disable=SC2034 # used by those who source this
clone_cache="$cache/clone/$(pwd -P | cksum | cut -d' ' -f1)"

# Compiled packages don't name the folder of their clone, so that all clones of this
# user share them.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
