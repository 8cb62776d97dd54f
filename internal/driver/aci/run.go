package aci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// fresh is how old a look may be that shows no group when one is made. Whoever
// made one meanwhile is still at it: a group takes longer to come up, and refuses
// a second request until then.
const fresh = 3 * time.Second

// RunJob implements sdk.JobRunner. It looks for the group, and makes it where
// there is none, with nothing in between; in one process nobody else does so for
// the same group meanwhile. It returns while Azure is at it.
//
// Azure would take a second request for the group as the wish to run it again. So
// a group that is there is adopted as it is, whatever it does.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	done, err := p.shared.begin(ctx, p.identity.String()+"/"+groupID(l.AttemptID))
	if err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	defer done()
	id := groupID(l.AttemptID)
	if err := p.writes.Wait(ctx); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	sealed := false
	for {
		looked := time.Now()
		g, err := p.getGroup(ctx, opRun, id)
		if err == nil {
			return p.adopt(l, g)
		}
		if !absent(err) {
			return sdk.RunJobResult{}, p.unsent(err)
		}
		if !sealed {
			if err := p.seal(ctx, req, l.Secrets); err != nil {
				return sdk.RunJobResult{}, err
			}
			sealed = true
		}
		// A slow vault, or a machine that slept: look again.
		if since := time.Since(looked); since >= 0 && since < fresh {
			break
		}
	}
	return p.create(ctx, l, id, req.Group)
}

// create makes the one call that makes the group.
func (p *provider) create(ctx context.Context, l sdk.Launch, id string, group *arm.ContainerGroup) (sdk.RunJobResult, error) {
	p.seen.Change(id, func(v *seen) { v.sent = p.clock.Now() })
	var answer *http.Response
	_, err := turn.Now(ctx, p.session, p.writes, opRun, func(ctx context.Context) (struct{}, error) {
		// What the call comes to is asked by reading the group, not the operation.
		_, err := p.groups.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &answer), p.cfg.ResourceGroup, id, *group, nil)
		return struct{}{}, err
	})
	code, _ := azure.CodeText(err)
	switch {
	case code == codeTransitioning:
		// Somebody else has made it since the look, and is still at it. That it
		// can't be read then proves nothing.
		g, err := p.getGroup(ctx, opRun, id)
		if err != nil {
			return sdk.RunJobResult{}, sdk.Unclear(err)
		}
		return p.adopt(l, g)
	case err != nil:
		return sdk.RunJobResult{}, refused(err)
	}
	h := p.handle(id, p.clock.Now())
	if answer != nil && answer.StatusCode == http.StatusOK {
		// 201 is a new group; this one was there, and its container was run anew.
		// https://learn.microsoft.com/en-us/rest/api/container-instances/container-groups/create-or-update#response
		h.Metadata[keyAgain] = "1"
		p.log.Warn("a container group was made by two processes at once; its container may have run twice", "provider", p.name, "group", id)
	}
	return sdk.RunJobResult{Handle: h, Adopted: h.Metadata[keyAgain] != ""}, nil
}

// codeTransitioning is Azure's code for a group that another call is at.
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/configuration-setup/container-group-remains-transitioning-state
const codeTransitioning = "ContainerGroupTransitioning"

// unsent is for errors of the look before a launch is sent. This call has sent
// nothing, so one that may pass is a clear refusal for now.
func (p *provider) unsent(err error) error {
	if sdk.IsClear(err) || sdk.CodeOf(err) == sdk.Canceled {
		return err
	}
	e := p.fail(sdk.Aborted, opRun, fmt.Errorf("look for the container group before it is made: %w", err))
	e.Retryable, e.RetryAfter = true, sdk.RetryAfter(err)
	return e
}

// absent reports whether an error says that the group isn't there. A missing
// resource group has no group either.
func absent(err error) bool { return sdk.CodeOf(err) == sdk.NotFound }

// adopt takes the group that an earlier send of the launch has made.
func (p *provider) adopt(l sdk.Launch, g *arm.ContainerGroup) (sdk.RunJobResult, error) {
	if o, ok := owned(g); !ok || o.AttemptID != l.AttemptID {
		e := p.fail(sdk.AlreadyExists, opRun, fmt.Errorf("the container group %s is there, and isn't this attempt's", groupID(l.AttemptID)))
		e.Reason = sdk.ReasonInvalidSpec
		return sdk.RunJobResult{}, e
	}
	p.show(groupID(l.AttemptID))
	return sdk.RunJobResult{Handle: p.handle(groupID(l.AttemptID), p.clock.Now()), Adopted: true}, nil
}

// refused gives a definite refusal its code and reason. Quotas and want of room
// pass, so the same attempt is sent again later.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-troubleshooting
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
func refused(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	code, text := azure.CodeText(err)
	low := strings.ToLower(text)
	switch {
	case code == "":
		return err // no answer of Azure's
	case code == "ContainerGroupQuotaReached", strings.Contains(low, "quota") && strings.Contains(low, "exceeded"):
		e.Code, e.Retryable, e.Reason = sdk.ResourceExhausted, true, sdk.ReasonQuota
		e.Remedy = "`windlass reap` removes groups that were left behind; Azure raises quotas on request"
	case strings.Contains(low, "is not available in the location"):
		e.Code, e.Retryable, e.Reason = sdk.ResourceExhausted, true, sdk.ReasonCapacity
	case e.Code == sdk.ResourceExhausted:
		e.Retryable, e.Reason = true, sdk.ReasonQuota
	case code == "RegistryErrorResponse":
		// The registry, such as Docker Hub, gave Azure an error that may pass.
		e.Code, e.Retryable, e.Reason = sdk.Aborted, true, sdk.ReasonImagePull
	case code == "InaccessibleImage", reasonOf(text) == sdk.ReasonImagePull:
		e.Code, e.Reason = sdk.InvalidArgument, sdk.ReasonImagePull
		e.Remedy = "check the image's name, and that Azure can read it: the option registries has the credentials"
	case e.Code == sdk.InvalidArgument, e.Code == sdk.NotFound, e.Code == sdk.FailedPrecondition:
		e.Reason = sdk.ReasonInvalidSpec
	}
	return err
}

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[request] {
	return launch.Reader[request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}

func (p *provider) getGroup(ctx context.Context, op, id string) (*arm.ContainerGroup, error) {
	return call(ctx, p, p.reads, op, func(ctx context.Context) (*arm.ContainerGroup, error) {
		res, err := p.groups.Get(ctx, p.cfg.ResourceGroup, id, nil)
		return &res.ContainerGroup, err
	})
}

// send is one group that is being made. Its channel has room for the one who is
// at it.
type send struct {
	turn  chan struct{}
	users int
}

// begin waits until nobody else in this process makes the group, and returns what
// ends one's own turn.
func (s *shared) begin(ctx context.Context, group string) (done func(), err error) {
	s.mu.Lock()
	t, ok := s.sends[group]
	if !ok {
		t = &send{turn: make(chan struct{}, 1)}
		s.sends[group] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.sends, group)
		}
	}
	select {
	case t.turn <- struct{}{}:
		return func() {
			<-t.turn
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
