package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/sdk"
)

// nowhere is a cloud that has no clusters.
func nowhere(key string) hosted.Cloud {
	return hosted.Cloud{Key: key, Doc: "A cluster.", Fields: []sdk.SchemaField{{Name: "cluster", Type: sdk.TypeString, Required: true, Doc: "Its name."}},
		Open: func(_ context.Context, r sdk.OpenRequest, raw json.RawMessage) (hosted.Source, error) {
			return nil, &sdk.Error{Code: sdk.NotFound, Op: hosted.Op, Provider: r.Name, Field: "config.cluster", Err: errors.New("no such cluster: " + string(raw))}
		}}
}

// TestOneCluster: two ways to a cluster are refused, naming both; one is taken.
func TestOneCluster(t *testing.T) {
	d := DriverWith(nowhere("red"), nowhere("blue"))
	for config, want := range map[string]struct {
		code        sdk.Code
		field, text string
	}{
		`{"red":{"cluster":"a"},"blue":{"cluster":"b"}}`:                   {sdk.InvalidArgument, "config.blue", "red and blue each name a cluster; leave one of them"},
		`{"red":{"cluster":"a"},"kubeconfig":"/k"}`:                        {sdk.InvalidArgument, "config.kubeconfig", "red and kubeconfig each name a cluster"},
		`{"blue":{"cluster":"a"},"context":"c"}`:                           {sdk.InvalidArgument, "config.context", "blue and context each name a cluster"},
		`{"red":{"cluster":"a"},"blue":{"cluster":"b"},"kubeconfig":"/k"}`: {sdk.InvalidArgument, "config.blue", "red and blue and kubeconfig each name a cluster"},
		`{"red":{"cluster":"a"}}`:                                          {sdk.NotFound, "config.red.cluster", `no such cluster: {"cluster":"a"}`},
		`{"red":{}}`:                                                       {sdk.InvalidArgument, "config.red.cluster", "is missing"},
		`{"red":{"cluster":"a","colour":"x"}}`:                             {sdk.InvalidArgument, "config.red.colour", "is not known"},
		`{"namespace":"jobs"}`:                                             {sdk.Unauthenticated, "", "no kubeconfig is named"},
	} {
		_, err := d.Open(t.Context(), sdk.OpenRequest{Name: "p", Config: json.RawMessage(config)})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != want.code || e.Field != want.field || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
