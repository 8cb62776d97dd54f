package aci

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/registry"
	"github.com/windlass-run/windlass/sdk"
)

// readEntrypoint is the member of Launch.Read that has the image's entrypoint, as
// JSON, where the registry told it.
const readEntrypoint = "image_entrypoint"

// command sets the one list that there is, which stands for entrypoint and
// arguments together. An empty list is the same as none: the image's own.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-start-command
func (l *plan) command(ctx context.Context, c *arm.ContainerProperties) error {
	s := l.Spec
	l.TextArgv("Container Instances")
	if s.Entrypoint == nil && s.Args == nil {
		return nil
	}
	entry := s.Entrypoint
	if entry == nil {
		var ok bool
		var err error
		if entry, ok, err = l.imageEntrypoint(ctx); !ok {
			return err
		}
	}
	words := append(append([]string{}, entry...), s.Args...)
	if len(words) == 0 {
		l.Bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return nil
	}
	for _, w := range words {
		c.Command = append(c.Command, to.Ptr(w))
	}
	return nil
}

// imageEntrypoint is what the image's own entrypoint is: what the spec says, else
// what the image's registry tells. ok is false where nothing does, which the plan
// or the error says.
func (l *plan) imageEntrypoint(ctx context.Context) (_ sdk.Argv, ok bool, _ error) {
	if l.Spec.ImageEntrypoint != nil {
		return l.Spec.ImageEntrypoint, true, nil
	}
	if l.Has("image") || l.Has("options.registries") {
		return nil, false, nil
	}
	unknown := func(why string) {
		l.Bad(sdk.FailedPrecondition, "image_entrypoint", "", "Container Instances has one list for entrypoint and arguments, so the image's own entrypoint has to be known, and %s; give image_entrypoint, empty where it has none (with run, --image-entrypoint or --entrypoint)", why)
	}
	user, password, why, err := l.login(ctx)
	if err != nil {
		return nil, false, err
	}
	if why != "" {
		unknown(why)
		return nil, false, nil
	}
	got, err := registry.Entrypoint(ctx, l.Spec.Image, registry.Login{Username: user, Password: password})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, l.p.fail(sdk.CodeOf(context.Cause(ctx)), opPrepare, context.Cause(ctx))
	case errors.Is(err, registry.ErrLogin):
		unknown(fmt.Sprintf("its registry doesn't tell it (%v; name a user in registries)", err))
		return nil, false, nil
	case err != nil:
		unknown("its registry doesn't tell it: " + err.Error())
		return nil, false, nil
	}
	text, err := sdk.EncodeCanonical(got)
	if err != nil {
		return nil, false, l.p.fail(sdk.Internal, opPrepare, err)
	}
	l.read = map[string]string{readEntrypoint: string(text)}
	return got, true, nil
}

// login is the user whom the image's registry knows, none where it is public. why
// says why there can be none.
func (l *plan) login(ctx context.Context) (user string, password sdk.SecretValue, why string, _ error) {
	host, err := registry.Host(l.Spec.Image)
	if err != nil {
		return "", sdk.SecretValue{}, err.Error(), nil
	}
	for _, reg := range l.place.Registries {
		if !registry.Same(reg.Server, host) {
			continue
		}
		if reg.Identity != "" {
			return "", sdk.SecretValue{}, "the registry " + reg.Server + " is one for identities of the group alone", nil
		}
		v, err := l.p.resolve(ctx, opPrepare, reg.Password)
		if err != nil {
			return "", sdk.SecretValue{}, "", err
		}
		return reg.Username, v, "", nil
	}
	return "", sdk.SecretValue{}, "", nil
}
