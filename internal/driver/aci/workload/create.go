package workload

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

// mainContainer is the name of the container of a group that was made here.
const mainContainer = "main"

// create makes the group of a spec. Azure has no call that makes a group only where
// there is none, so that it is looked for right before.
func (o *Operator) create(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.OpResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.OpResult{}, o.fail(sdk.CodeOf(err), opStart, err)
	}
	w, err := o.find(opStart, r.Op.Path)
	if err != nil {
		return sdk.OpResult{}, err
	}
	g, passwords, ps := o.groupOf(w, *r.Spec)
	if len(ps) > 0 {
		return sdk.OpResult{}, o.refuse(opStart, ps)
	}
	old, err := o.get(ctx, opStart, w)
	switch {
	case err == nil:
		if m, ok := markOf(old); ok && m.id == r.Op.OpID && m.verb == verbCreate {
			return sdk.OpResult{Changed: true, Generation: generationOf(old), Trace: traceWords(w)}, nil
		}
		return sdk.OpResult{}, o.fail(sdk.AlreadyExists, opStart, fmt.Errorf("the container group %s is there already", w.path()))
	case sdk.CodeOf(err) != sdk.NotFound:
		return sdk.OpResult{}, err
	}
	if err := r.Op.Expect.Check(opStart, sdk.DeploymentStatus{Path: w.path()}); err != nil {
		return sdk.OpResult{}, err
	}
	m := newMark(r.Op.OpID, verbCreate, o.Clock.Now(), nil)
	g.Tags[tagOp] = to.Ptr(m.String())
	res := sdk.OpResult{Changed: true}
	if r.Op.DryRun {
		res.Calls = append(o.storeCalls(w, r.Spec.Config, nil), sdk.PlannedCall{Name: callWrite, Object: "container group " + string(w.path()), Args: map[string]string{
			"image": r.Spec.Image, "location": o.Location, "tags." + tagOp: m.String()}})
		return res, nil
	}
	if err := o.seal(ctx, opStart, containersOf(g)[0].Properties, r.Spec.Secrets); err != nil {
		return sdk.OpResult{}, err
	}
	if err := o.sealPasswords(ctx, opStart, g, func(server string) sdk.SecretRef { return passwords[server] }); err != nil {
		return sdk.OpResult{}, err
	}
	undo, err := o.store(ctx, opStart, w, r.Spec.Config, nil)
	if err != nil {
		return sdk.OpResult{}, err
	}
	if err := o.put(ctx, opStart, w, g); err != nil {
		return sdk.OpResult{}, undo(o.Refused(err))
	}
	res.Trace = traceWords(w)
	return res, nil
}

// put deploys a group, and returns when Azure has accepted it.
func (o *Operator) put(ctx context.Context, op string, w at, g *arm.ContainerGroup) error {
	_, err := turn.Call(ctx, o.Provider, o.Session, o.Writes, op, func(ctx context.Context) (struct{}, error) {
		_, err := o.groups.BeginCreateOrUpdate(ctx, w.group, w.name, *g, nil)
		return struct{}{}, err
	})
	return err
}

// groupOf is the group of a spec, without the values of secrets.
func (o *Operator) groupOf(w at, s sdk.DeploymentSpec) (*arm.ContainerGroup, map[string]sdk.SecretRef, []sdk.Problem) {
	ps := sdk.ValidateDeployment(s)
	bad := func(code sdk.Code, field, value, format string, args ...any) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
	}
	if s.Name != w.name {
		bad(sdk.InvalidArgument, "name", s.Name, "isn't that of the target %s", w.path())
	}
	if n := s.Replicas; n != nil && *n != 1 {
		bad(sdk.Unimplemented, "replicas", fmt.Sprint(*n), "a container group has no replicas; leave it out")
	}
	if s.Health != nil {
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-readiness-probe
		bad(sdk.Unimplemented, "health", "", "Container Instances doesn't tell whether a check holds; leave it out")
	}
	place, more := o.Place(s.Options)
	ps = append(ps, more...)
	cores, gigabytes := o.Size(s.Resources, func(field, message string) { bad(sdk.InvalidArgument, "resources."+field, "", "%s", message) })
	c := &arm.ContainerProperties{Image: to.Ptr(s.Image), Resources: &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: &cores, MemoryInGB: &gigabytes}}}
	for i, word := range s.Command {
		if !utf8.ValidString(word) {
			bad(sdk.Unimplemented, fmt.Sprintf("command[%d]", i), "", "is not UTF-8, and Container Instances takes text alone")
		}
		c.Command = append(c.Command, to.Ptr(word))
	}
	variables := func(field string, vars map[string]string) {
		for _, k := range sortedKeys(vars) {
			if msg := checkVariable(k, vars[k]); msg != "" {
				bad(sdk.Unimplemented, field, k, "%s", msg)
			}
			c.EnvironmentVariables = setVariable(c.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(k), Value: to.Ptr(vars[k])})
		}
	}
	variables("env", s.Env)
	variables("config", s.Config)
	if place.Group == nil { // it has problems
		return nil, nil, ps
	}
	g := place.Group
	ps = append(ps, o.checkSecrets(s.Secrets)...)
	noteSecrets(g.Tags, s.Secrets, nil)
	ps = append(ps, address(g, c, s.Ports, place.Public)...)
	if n := len(g.Tags) + 1; n > azure.MaxTags {
		bad(sdk.InvalidArgument, "secrets", fmt.Sprint(len(s.Secrets)), "a container group has at most %d tags, one for each secret among them; these would be %d", azure.MaxTags, n)
	}
	g.Properties.Containers = []*arm.Container{{Name: to.Ptr(mainContainer), Properties: c}}
	g.Properties.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyAlways)
	return g, place.Passwords, ps
}

// address opens a container's ports: in the subnet, or on the internet where that
// is wanted.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-container-groups#networking
func address(g *arm.ContainerGroup, c *arm.ContainerProperties, ports []sdk.Port, public bool) []sdk.Problem {
	if len(ports) == 0 {
		return nil
	}
	kind := arm.ContainerGroupIPAddressTypePrivate
	if len(g.Properties.SubnetIDs) == 0 {
		if kind = arm.ContainerGroupIPAddressTypePublic; !public {
			return []sdk.Problem{{Field: "ports", Code: sdk.FailedPrecondition,
				Message: "a group without a subnet is reached from the internet alone; set the option subnet, or public_address if that is wanted"}}
		}
	}
	a := &arm.IPAddress{Type: &kind}
	for _, p := range ports {
		protocol := strings.ToUpper(string(p.Protocol))
		if protocol == "" {
			protocol = string(arm.ContainerNetworkProtocolTCP)
		}
		a.Ports = append(a.Ports, &arm.Port{Port: to.Ptr(int32(p.Port)), Protocol: to.Ptr(arm.ContainerGroupNetworkProtocol(protocol))})
		c.Ports = append(c.Ports, &arm.ContainerPort{Port: to.Ptr(int32(p.Port)), Protocol: to.Ptr(arm.ContainerNetworkProtocol(protocol))})
	}
	g.Properties.IPAddress = a
	return nil
}
