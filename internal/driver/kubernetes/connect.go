package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// connect opens the session with the cluster that the config names: one of a cloud,
// which is asked where it is, else that of a kubeconfig or of the pod that this is.
func (c config) connect(ctx context.Context, r sdk.OpenRequest, clouds []hosted.Cloud) (*kube.Session, error) {
	cloud, member, err := c.cloud(r, clouds)
	if err != nil {
		return nil, err
	}
	settings := kube.Settings{Provider: r.Name, File: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace,
		Credentials: r.Credentials, Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout}
	if cloud == nil {
		return kube.Open(settings)
	}
	source, cluster, err := cloud.Find(ctx, r, member)
	if err != nil {
		return nil, err
	}
	session, err := kube.OpenHosted(settings, source, cluster)
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return session, nil
}

// cloud is the cloud whose cluster the config names, and the member that names it; nil
// where none does. Two ways to a cluster are refused: neither may be dropped.
func (c config) cloud(r sdk.OpenRequest, clouds []hosted.Cloud) (found *hosted.Cloud, member json.RawMessage, err error) {
	var members map[string]json.RawMessage
	if len(r.Config) > 0 {
		if err := json.Unmarshal(r.Config, &members); err != nil {
			return nil, nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Err: err}
		}
	}
	var ways []string
	for i := range clouds {
		if raw, ok := members[clouds[i].Key]; ok {
			found, member, ways = &clouds[i], raw, append(ways, clouds[i].Key)
		}
	}
	for _, name := range []string{"kubeconfig", "context"} {
		if _, ok := members[name]; ok && found != nil {
			ways = append(ways, name)
		}
	}
	if len(ways) > 1 {
		return nil, nil, &sdk.Error{Code: sdk.InvalidArgument, Op: hosted.Op, Provider: r.Name, Field: "config." + ways[1],
			Err: fmt.Errorf("%s each name a cluster", strings.Join(ways, " and ")), Remedy: "leave one of them"}
	}
	return found, member, nil
}
