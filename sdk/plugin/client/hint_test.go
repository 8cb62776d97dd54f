package client_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/client"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// before is a connection to a plugin of before there were hints, which tells of none
// and refuses what it doesn't know. asked is the last request of a status.
type before struct {
	grpc.ClientConnInterface
	old   bool
	asked *pb.WorkloadStatusRequest
}

func (b *before) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if m, ok := args.(*pb.WorkloadStatusRequest); ok {
		b.asked = m
	}
	err := b.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if m, ok := reply.(*pb.OpenResponse); ok && b.old {
		m.Hints = nil
	}
	return err
}

// TestBriefIsAHint: it is sent to a plugin that reads it, and left out for one that
// would refuse it.
func TestBriefIsAHint(t *testing.T) {
	c := fake.NewCloud(fake.Options{})
	if err := c.Deploy("api", "img", 2, nil); err != nil {
		t.Fatal(err)
	}
	for name, old := range map[string]bool{"reads it": false, "of before": true} {
		t.Run(name, func(t *testing.T) {
			var s *plugin.Server
			b := &before{old: old, ClientConnInterface: plugintest.Serve(t, func(r grpc.ServiceRegistrar) {
				var err error
				if s, err = plugin.Register(r, fake.NewDriver(c, fake.Settings{})); err != nil {
					t.Fatal(err)
				}
			})}
			t.Cleanup(func() { _ = s.Close() }) // its provider is closed before
			d, err := client.Driver(t.Context(), b, sdk.NewIDSource(sdk.SystemClock()))
			if err != nil {
				t.Fatal(err)
			}
			st, _ := sdk.Of(openFake(t, d), sdk.WorkloadStates())
			res, err := st.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: "api", Brief: true})
			if err != nil || res.Status.Desired == nil || *res.Status.Desired != 2 {
				t.Fatalf("%+v, %v", res.Status, err)
			}
			if b.asked.GetBrief() == old || (len(res.Status.Instances) > 0) != old {
				t.Errorf("asked %v, and got %d instances", b.asked, len(res.Status.Instances))
			}
		})
	}
}
