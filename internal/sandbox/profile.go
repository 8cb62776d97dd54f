package sandbox

import "github.com/windlass-run/windlass/sdk"

// Profiles returns the security profiles, strictest first.
func Profiles() []sdk.Profile {
	return []sdk.Profile{sdk.ProfileStrict, sdk.ProfileStandard, sdk.ProfilePermissive}
}
