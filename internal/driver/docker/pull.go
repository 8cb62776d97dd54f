package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windlass-run/windlass/sdk"
)

// progressEvery bounds how often a pull in progress says something.
const progressEvery = time.Second

// pull fetches the image, and tells how far it is. It takes as long as it does:
// the caller's context and the engine's own bounds end it.
func (s *send) pull(ctx context.Context) error {
	image := s.req.Body.Image
	ref, err := reference.ParseAnyReference(image)
	if err != nil {
		return s.p.fail(sdk.InvalidArgument, opRun, err)
	}
	if _, ok := ref.(reference.Named); !ok {
		const words = "the engine has no image of this ID, and images are pulled by name: not found"
		return s.p.pullError(errors.New(words), words)
	}
	auth, err := s.p.pulls.Auth(ctx, image)
	if err != nil {
		return err
	}
	opt := client.ImagePullOptions{RegistryAuth: auth}
	plat, err := platform(s.req.Platform)
	if err != nil {
		return s.p.fail(sdk.InvalidArgument, opRun, err)
	}
	if plat != nil {
		opt.Platforms = []ocispec.Platform{*plat}
	}
	s.progress("pulling " + image)
	told := newProgress(s.progress, s.p.clock)
	var refused error
	err = s.p.client.Long(ctx, opRun, func(ctx context.Context, api *client.Client) error {
		res, err := api.ImagePull(ctx, image, opt)
		if err != nil {
			return err
		}
		for m, err := range res.JSONMessages(ctx) {
			if err != nil {
				return err
			}
			if m.Error != nil {
				refused = m.Error
				return nil
			}
			told.message(m)
		}
		return nil
	})
	switch {
	case refused != nil:
		return s.p.pullError(refused, refused.Error())
	case err == nil:
		s.progress("pulled " + image)
		return nil
	case ctx.Err() != nil || answered(err) == "":
		// The engine itself was not reached, or the connection to it broke.
		return err
	default:
		return s.p.pullError(err, answered(err))
	}
}

// answered returns the engine's own words if err is its answer.
func answered(err error) string {
	switch sdk.CodeOf(err) {
	case sdk.Unavailable, sdk.DeadlineExceeded, sdk.Canceled:
		return ""
	}
	return err.Error()
}

// pullError classes a pull that failed. All of its classes are clear: nothing
// was made. The reason says that it was the image; the code says why.
func (p *provider) pullError(err error, words string) error {
	m := strings.ToLower(words)
	has := func(list ...string) bool {
		for _, w := range list {
			if strings.Contains(m, w) {
				return true
			}
		}
		return false
	}
	e := p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("fetch the image: %w", unwrapSDK(err)))
	e.Reason = sdk.ReasonImagePull
	switch {
	case has("unauthorized", "authentication required", "no basic auth", "incorrect username or password", "access denied", "denied:", "forbidden"):
		e.Code = sdk.PermissionDenied
		e.Remedy = "check the name, and log in to its registry (docker login, with DOCKER_CONFIG or ambient credentials)"
	case has("no matching manifest"):
		e.Remedy = "the image has no variant for this platform"
	case has("not found", "manifest unknown", "no such image", "name unknown", "does not exist"):
		e.Code = sdk.NotFound
		e.Remedy = "check the name and the tag"
	case has("toomanyrequests", "too many requests", "rate limit"):
		e.Remedy = "the registry limits pulls: log in, or wait"
	case has("no such host", "connection refused", "dial tcp", "i/o timeout", "tls", "x509", "server misbehaving", "timeout", "server gave http response"):
		e.Remedy = "the engine can't reach the registry"
	case has("no space left"):
		e.Remedy = "the engine's disk is full"
	}
	return e
}

// unwrapSDK returns the cause within an error of ours, so that its operation
// and provider aren't told twice.
func unwrapSDK(err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Err != nil {
		return e.Err
	}
	return err
}

// progress turns the engine's messages into few lines: each layer's turns of
// state, and now and then how many bytes there are.
type progress struct {
	say   func(string)
	clock sdk.Clock
	state map[string]string
	bytes map[string][2]int64
	last  time.Time
}

func newProgress(say func(string), clock sdk.Clock) *progress {
	return &progress{say: say, clock: clock, state: map[string]string{}, bytes: map[string][2]int64{}, last: clock.Now()}
}

func (p *progress) message(m jsonstream.Message) {
	if m.ID == "" {
		if m.Status != "" {
			p.say(m.Status)
		}
		return
	}
	if m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading" {
		p.bytes[m.ID] = [2]int64{m.Progress.Current, m.Progress.Total}
	}
	if now := p.clock.Now(); now.Sub(p.last) >= progressEvery && len(p.bytes) > 0 {
		p.last = now
		var have, all int64
		for _, b := range p.bytes {
			have, all = have+b[0], all+b[1]
		}
		p.say(fmt.Sprintf("downloading: %d of %d bytes", have, all))
	}
	if p.state[m.ID] == m.Status {
		return
	}
	p.state[m.ID] = m.Status
	switch m.Status {
	case "Download complete", "Pull complete", "Already exists":
		if b, ok := p.bytes[m.ID]; ok {
			p.bytes[m.ID] = [2]int64{b[1], b[1]}
		}
		p.say(m.ID + ": " + m.Status)
	}
}
