package runner

import (
	"fmt"
	"slices"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// clamp returns the stricter of what is asked for and what may be had at most.
// Nothing asked for is strict. A profile that there isn't is refused: whoever
// asks for it means something that this runner doesn't know.
func clamp(asked string, most sdk.Profile) (sdk.Profile, error) {
	p := sdk.Profile(asked)
	if p == sdk.ProfileUnset {
		return sdk.ProfileStrict, nil
	}
	all := sandbox.Profiles()
	want, limit := slices.Index(all, p), slices.Index(all, most)
	if want < 0 {
		return "", &sdk.Error{Code: sdk.InvalidArgument, Op: opExec, Field: "profile",
			Err: fmt.Errorf("no security profile is called %q", asked), Remedy: "ask for strict, standard or permissive"}
	}
	return all[min(want, max(limit, 0))], nil
}

// checkProfile reads the profile of a configuration; empty is strict.
func checkProfile(p sdk.Profile) (sdk.Profile, error) {
	if p == sdk.ProfileUnset {
		return sdk.ProfileStrict, nil
	}
	if !slices.Contains(sandbox.Profiles(), p) {
		return "", fmt.Errorf("profile %q is none of strict, standard, permissive", p)
	}
	return p, nil
}
