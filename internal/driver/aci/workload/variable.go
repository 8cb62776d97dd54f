package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

// tagSecret with a variable's name behind it is the tag that holds the reference to
// its value: no read of a group shows a secure value, and every deployment needs it
// again.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-environment-variables#secure-values
const tagSecret = sdk.LabelPrefix + "secret-"

// variableForm is what a variable's name may be.
var variableForm = form(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkVariable returns why Container Instances can't take a variable, or nothing.
func checkVariable(name, value string) string {
	switch {
	case !variableForm().MatchString(name):
		return "Container Instances takes names of letters, digits and _ that don't begin with a digit"
	case !utf8.ValidString(value):
		return "its value is not UTF-8, and Container Instances takes text alone"
	}
	return ""
}

// setVariable replaces the variable of a name, or adds it.
func setVariable(list []*arm.EnvironmentVariable, v *arm.EnvironmentVariable) []*arm.EnvironmentVariable {
	for i, old := range list {
		if deref(old.Name) == *v.Name {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

// secure reports whether a variable, as a group is read, has a value that isn't
// shown.
func secure(v *arm.EnvironmentVariable) bool { return v.Value == nil }

// refOf is the reference that a group's tag has for a variable; empty for none.
func refOf(g *arm.ContainerGroup, name string) sdk.SecretRef {
	return sdk.SecretRef(deref(g.Tags[tagSecret+name]))
}

// noteSecrets writes references into tags, and takes those of other names out.
func noteSecrets(tags map[string]*string, refs map[string]sdk.SecretRef, gone []string) {
	for _, name := range gone {
		delete(tags, tagSecret+name)
	}
	for name, ref := range refs {
		tags[tagSecret+name] = to.Ptr(string(ref))
	}
}

// checkSecrets returns what is wrong with references. Names of tags are the same in
// any case.
func (o *Operator) checkSecrets(refs map[string]sdk.SecretRef) []sdk.Problem {
	var ps []sdk.Problem
	seen := map[string]string{}
	for _, name := range sortedKeys(refs) {
		bad := func(format string, args ...any) {
			ps = append(ps, sdk.Problem{Field: "secrets." + name, Value: string(refs[name]), Message: fmt.Sprintf(format, args...), Code: sdk.Unimplemented})
		}
		if msg := checkVariable(name, ""); msg != "" {
			bad("%s", msg)
			continue
		}
		parsed, err := sdk.ParseSecretRef(string(refs[name]))
		if err != nil {
			continue // the contract's own check has said so
		}
		if msg := o.CheckSecret(parsed); msg != "" {
			bad("%s", msg)
		} else if msg := azure.CheckTag(tagSecret+name, string(refs[name])); msg != "" {
			bad("its reference stands in a tag of the group, and %s", msg)
		}
		if other := seen[strings.ToLower(name)]; other != "" {
			bad("its reference stands in a tag of the group, which Azure takes for that of %s", other)
		}
		seen[strings.ToLower(name)] = name
	}
	return ps
}

// seal reads secrets and makes them secure variables.
func (o *Operator) seal(ctx context.Context, op string, c *arm.ContainerProperties, refs map[string]sdk.SecretRef) error {
	for _, name := range sortedKeys(refs) {
		v, err := o.Resolve(ctx, op, refs[name])
		if err != nil {
			return err
		}
		text := string(v.Reveal())
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			e := o.fail(sdk.InvalidArgument, op, fmt.Errorf("the secret %s is not text in UTF-8, and a variable on Container Instances can hold nothing else", name))
			e.Field = "secrets." + name
			return e
		}
		c.EnvironmentVariables = setVariable(c.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(name), SecureValue: &text})
	}
	return nil
}

// sealPasswords reads the passwords of registries' users, which no read of a group
// shows.
func (o *Operator) sealPasswords(ctx context.Context, op string, g *arm.ContainerGroup, of func(server string) sdk.SecretRef) error {
	for _, reg := range g.Properties.ImageRegistryCredentials {
		if reg == nil || deref(reg.Username) == "" {
			continue
		}
		v, err := o.Resolve(ctx, op, of(deref(reg.Server)))
		if err != nil {
			return err
		}
		reg.Password = to.Ptr(string(v.Reveal()))
	}
	return nil
}

// revision names a container's settings. Of a secure one it has the reference.
func revision(c *arm.ContainerProperties, ref func(name string) sdk.SecretRef) string {
	vars := slices.SortedFunc(slices.Values(c.EnvironmentVariables), func(a, b *arm.EnvironmentVariable) int { return strings.Compare(deref(a.Name), deref(b.Name)) })
	h := sha256.New()
	for _, v := range vars {
		kind, text := "value", deref(v.Value)
		if secure(v) {
			kind, text = "secret", string(ref(deref(v.Name)))
		}
		_, _ = fmt.Fprintf(h, "%q %s %q\n", deref(v.Name), kind, text) // a hash takes all
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
