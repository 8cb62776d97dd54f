package do

import "github.com/windlass-run/windlass/sdk"

// AppPrefix begins the names of apps that belong to attempts, and MaxAppName is
// the longest name of an app.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_create
const (
	AppPrefix  = "wl-"
	MaxAppName = 32
)

// AppName names an attempt's app: wl- and the attempt's 26 characters.
func AppName(attempt sdk.ID) string { return AppPrefix + attempt.String() }
