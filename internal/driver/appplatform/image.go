package appplatform

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/godo"
	"github.com/distribution/reference"

	"github.com/windlass-run/windlass/internal/cloud/registry"
	"github.com/windlass-run/windlass/sdk"
)

// The hosts of the three registries that App Platform takes images from.
// https://docs.digitalocean.com/products/app-platform/how-to/deploy-from-container-images/
const (
	hostDOCR = "registry.digitalocean.com"
	hostHub  = "docker.io"
	hostGHCR = "ghcr.io"
)

// image names the job's image as an app's spec does.
func (l *plan) image() *godo.ImageSourceSpec {
	text := l.Spec.Image
	if text == "" {
		l.Bad(sdk.InvalidArgument, "image", "", "App Platform runs images, and none is given")
		return nil
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		l.Bad(sdk.InvalidArgument, "image", text, "is no image's reference: %v", err)
		return nil
	}
	out := &godo.ImageSourceSpec{}
	digested, isDigested := named.(reference.Digested)
	tagged, isTagged := named.(reference.Tagged)
	switch {
	case isDigested:
		out.Digest = digested.Digest().String()
		if isTagged {
			l.Fit("image", reference.FamiliarName(named)+"@"+out.Digest, "beside a digest the tag says nothing, and App Platform takes one of them")
		}
	case isTagged:
		out.Tag = tagged.Tag()
	default:
		out.Tag = "latest"
	}
	head, rest, nested := strings.Cut(reference.Path(named), "/")
	switch host := reference.Domain(named); host {
	case hostDOCR:
		// The account's own registry is meant, whatever it is called.
		out.RegistryType, out.Repository = godo.ImageSourceSpecRegistryType_DOCR, rest
		if own := l.p.cfg.Registry; !nested || own != head {
			l.Bad(sdk.FailedPrecondition, "image", text, "App Platform takes images from the account's own registry alone; if that is %s, set registry: %s under config:", head, head)
		}
	case hostHub:
		out.RegistryType, out.Registry, out.Repository = godo.ImageSourceSpecRegistryType_DockerHub, head, rest
	case hostGHCR:
		out.RegistryType, out.Registry, out.Repository = godo.ImageSourceSpecRegistryType_Ghcr, head, rest
	default:
		l.Bad(sdk.Unimplemented, "image", text, "App Platform takes images from %s, %s and %s, not from %s", hostDOCR, hostHub, hostGHCR, host)
		return nil
	}
	if out.Repository == "" {
		l.Bad(sdk.InvalidArgument, "image", text, "the image's name lacks its owner: write %s/OWNER/NAME", reference.Domain(named))
	}
	if l.place.RegistryCredentials != "" && out.RegistryType == godo.ImageSourceSpecRegistryType_DOCR {
		l.Bad(sdk.InvalidArgument, "options.registry_credentials", "", "are for Docker Hub and GitHub's registry; the account's own needs none")
	}
	return out
}

// imageName is the reference that an app's spec means.
func imageName(i *godo.ImageSourceSpec) string {
	name := strings.TrimPrefix(i.Registry+"/"+i.Repository, "/")
	switch i.RegistryType {
	case godo.ImageSourceSpecRegistryType_DOCR:
		name = hostDOCR + "/" + name
	case godo.ImageSourceSpecRegistryType_Ghcr:
		name = hostGHCR + "/" + name
	case godo.ImageSourceSpecRegistryType_DockerHub:
		name = strings.TrimPrefix(name, "library/")
	}
	if i.Digest != "" {
		return name + "@" + i.Digest
	}
	return name + ":" + i.Tag
}

// readEntrypoint is the member of Launch.Read that has the image's entry point, as
// JSON, where the registry told it.
const readEntrypoint = "image_entrypoint"

// imageEntrypoint is what the image's own entry point is: what the spec says, else
// what the image's registry tells. ok is false where nothing does, which the plan or
// the error says. Nobody is asked for an image that is refused.
func (l *plan) imageEntrypoint(ctx context.Context, image *godo.ImageSourceSpec) (_ sdk.Argv, ok bool, _ error) {
	if l.Spec.ImageEntrypoint != nil {
		return l.Spec.ImageEntrypoint, true, nil
	}
	if image == nil || l.Has("image") || l.Has("options.registry_credentials") {
		return nil, false, nil
	}
	unknown := func(why string) {
		l.Bad(sdk.FailedPrecondition, "image_entrypoint", "", "a run command of App Platform takes the place of the image's ENTRYPOINT, too, so that has to be known, and %s; "+
			"give image_entrypoint, empty where it has none (with run, --image-entrypoint or --entrypoint)", why)
	}
	if image.RegistryType == godo.ImageSourceSpecRegistryType_DOCR {
		unknown("DigitalOcean's registry tells nobody without a login of its own")
		return nil, false, nil
	}
	login, err := l.login(ctx)
	if err != nil {
		return nil, false, err
	}
	got, err := l.p.entrypoint(ctx, l.Spec.Image, login)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, l.p.fail(sdk.CodeOf(context.Cause(ctx)), opPrepare, context.Cause(ctx))
	case errors.Is(err, registry.ErrLogin):
		unknown(fmt.Sprintf("its registry doesn't tell it (%v; name a user in registry_credentials)", err))
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

// login is the user whom the image's registry knows: App Platform's credentials,
// USER:TOKEN. Without them it is nobody.
// https://docs.digitalocean.com/products/app-platform/reference/app-spec/
func (l *plan) login(ctx context.Context) (registry.Login, error) {
	ref := sdk.SecretRef(l.place.RegistryCredentials)
	if ref == "" {
		return registry.Login{}, nil
	}
	text, err := l.p.resolve(ctx, "options.registry_credentials", ref)
	if err != nil {
		return registry.Login{}, err
	}
	user, token, ok := strings.Cut(text, ":")
	if !ok || user == "" {
		e := l.p.fail(sdk.InvalidArgument, opPrepare, errors.New("the value doesn't read USER:TOKEN"))
		e.Field, e.Reason = "options.registry_credentials", sdk.ReasonInvalidSpec
		return registry.Login{}, e
	}
	return registry.Login{Username: user, Password: sdk.NewSecretValue([]byte(token))}, nil
}
