package appplatform

import (
	"strings"

	"github.com/digitalocean/godo"
	"github.com/distribution/reference"

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
	text := l.spec.Image
	if text == "" {
		l.bad(sdk.InvalidArgument, "image", "", "App Platform runs images, and none is given")
		return nil
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		l.bad(sdk.InvalidArgument, "image", text, "is no image's reference: %v", err)
		return nil
	}
	out := &godo.ImageSourceSpec{}
	digested, isDigested := named.(reference.Digested)
	tagged, isTagged := named.(reference.Tagged)
	switch {
	case isDigested:
		out.Digest = digested.Digest().String()
		if isTagged {
			l.fit("image", reference.FamiliarName(named)+"@"+out.Digest, "beside a digest the tag says nothing, and App Platform takes one of them")
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
			l.bad(sdk.FailedPrecondition, "image", text, "App Platform takes images from the account's own registry alone; if that is %s, set registry: %s under config:", head, head)
		}
	case hostHub:
		out.RegistryType, out.Registry, out.Repository = godo.ImageSourceSpecRegistryType_DockerHub, head, rest
	case hostGHCR:
		out.RegistryType, out.Registry, out.Repository = godo.ImageSourceSpecRegistryType_Ghcr, head, rest
	default:
		l.bad(sdk.Unimplemented, "image", text, "App Platform takes images from %s, %s and %s, not from %s", hostDOCR, hostHub, hostGHCR, host)
		return nil
	}
	if out.Repository == "" {
		l.bad(sdk.InvalidArgument, "image", text, "the image's name lacks its owner: write %s/OWNER/NAME", reference.Domain(named))
	}
	if l.place.RegistryCredentials != "" && out.RegistryType == godo.ImageSourceSpecRegistryType_DOCR {
		l.bad(sdk.InvalidArgument, "options.registry_credentials", "", "are for Docker Hub and GitHub's registry; the account's own needs none")
	}
	return out
}
