package sandbox

import (
	"github.com/windlass-run/windlass/sdk"
)

// Profiles returns the security profiles, strictest first.
func Profiles() []sdk.Profile {
	return []sdk.Profile{sdk.ProfileStrict, sdk.ProfileStandard, sdk.ProfilePermissive}
}

// ParseProfile reads a profile's name; the empty text is the unset one. Anything
// else is InvalidArgument.
func ParseProfile(s string) (sdk.Profile, error) {
	if s == "" {
		return sdk.ProfileUnset, nil
	}
	for _, p := range Profiles() {
		if s == string(p) {
			return p, nil
		}
	}
	return "", sdk.Errorf(sdk.InvalidArgument, "read profile", "%q is none of strict, standard, permissive", s)
}

// ProfileRow is what one profile gives on a backend.
type ProfileRow struct {
	Profile sdk.Profile
	// Gives is one sentence, for the documents.
	Gives string
}

// ProfileRows describes the profiles for the documents: what the driver docker,
// which has all of them, makes of each.
func ProfileRows() []ProfileRow {
	return []ProfileRow{
		{sdk.ProfileStrict, "no network, no capabilities, no new privileges, a read-only root with 64 MiB of /tmp that can't be executed from, 256 MiB of memory, half a core and 64 processes at most; nothing that is mounted can be written"},
		{sdk.ProfileStandard, "no new privileges and 1024 processes at most; the engine's own network and capabilities"},
		{sdk.ProfilePermissive, "what the backend gives a container by itself; never more"},
	}
}
