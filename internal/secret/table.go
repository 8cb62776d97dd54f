package secret

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// Known returns the schemes that some kind takes, in the order of the documents:
// those of the submitter's machine first. A plugin may bring others.
func Known() []string {
	return []string{SchemeEnv, SchemeFile, "k8s", "aws-sm", "aws-ssm", "gcp-sm", "azure-kv"}
}

// Delivery is what becomes of a reference on a kind.
type Delivery struct {
	// Refused: the kind takes no secret of the scheme.
	Refused bool
	// How says in a few words what happens.
	How string
	// NeedsVisible: only with AllowVisibleSecret.
	NeedsVisible bool
}

// Deliver returns what a driver does with references of a scheme. Local are
// the schemes that are resolved on the submitter's machine.
func Deliver(scheme string, local []string, d sdk.Driver) Delivery {
	if !slices.Contains(d.Schemes, scheme) {
		return Delivery{Refused: true, How: "refused"}
	}
	if slices.Contains(d.VisibleSchemes, scheme) {
		return Delivery{How: "resolved, a visible variable; needs `--allow-visible-secret`", NeedsVisible: true}
	}
	here := slices.Contains(local, scheme)
	switch d.Guarantees.Secrets {
	case sdk.SecretReference:
		if here {
			return Delivery{How: "resolved here, stored by the driver, passed on by name"}
		}
		return Delivery{How: "passed on; the backend fetches it"}
	case sdk.SecretSealed:
		if here {
			return Delivery{How: "resolved, sealed"}
		}
		return Delivery{How: "fetched by the driver, sealed"}
	case sdk.SecretFile:
		return Delivery{How: "resolved, a file that only the job reads"}
	case sdk.SecretProcessEnv:
		return Delivery{How: "resolved, a variable of the process"}
	case sdk.SecretVisibleEnv:
		return Delivery{How: "resolved, a visible variable; needs `--allow-visible-secret`", NeedsVisible: true}
	}
	return Delivery{Refused: true, How: "refused"}
}

// Check returns what is wrong with a run's references on a driver, before
// launch: schemes that nobody knows and schemes that the driver refuses.
func Check(refs map[string]sdk.SecretRef, local []string, d sdk.Driver) []sdk.Problem {
	var ps []sdk.Problem
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		bad := func(code sdk.Code, format string, args ...any) {
			ps = append(ps, sdk.Problem{Field: "secrets." + name, Value: string(refs[name]), Message: fmt.Sprintf(format, args...), Code: code})
		}
		p, err := sdk.ParseSecretRef(string(refs[name]))
		if err != nil {
			// The text may be the secret itself.
			ps = append(ps, sdk.Problem{Field: "secrets." + name, Message: err.Error(), Code: sdk.InvalidArgument})
			continue
		}
		if Deliver(p.Scheme, local, d).Refused {
			bad(sdk.Unimplemented, "the kind %s takes no secret of the scheme %s; %s", d.Kind, p.Scheme, instead(p.Scheme, local, d))
		}
	}
	return ps
}

// instead says what a kind takes that refuses a scheme, and how to get the secret
// there.
func instead(scheme string, local []string, d sdk.Driver) string {
	if len(d.Schemes) == 0 {
		return "this kind takes no secrets"
	}
	takes := "it takes " + strings.Join(slices.Sorted(slices.Values(d.Schemes)), ", ")
	if !slices.Contains(Known(), scheme) {
		if near := sdk.Nearest(scheme, d.Schemes); near != "" {
			return fmt.Sprintf("did you mean %q? %s", near, takes)
		}
		return takes
	}
	if how := Deliver(SchemeEnv, local, d); !how.Refused && !how.NeedsVisible {
		return takes + ": fetch the value yourself, and name the variable that holds it by secret://env/"
	}
	for _, s := range d.Schemes {
		if how := Deliver(s, local, d); !how.Refused && !how.NeedsVisible {
			return fmt.Sprintf("%s: store it where secret://%s/ leads to", takes, s)
		}
	}
	return takes
}
