package gcp

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestOffered calls every method of every service: those that aren't listed are
// refused, and those that are listed are not.
func TestOffered(t *testing.T) {
	c := newCloud(t, Options{})
	offered := Operations()
	delete(offered, "google.container.v1.ClusterManager") // REST alone: TestGKERules
	for service, info := range c.grpc.GetServiceInfo() {
		list, ok := offered[service]
		if !ok {
			t.Errorf("service %s isn't listed", service)
		}
		delete(offered, service)
		for _, m := range info.Methods {
			if m.IsServerStream {
				continue
			}
			err := c.conn.Invoke(t.Context(), "/"+service+"/"+m.Name, &emptypb.Empty{}, &emptypb.Empty{})
			refused := status.Code(err) == codes.Unimplemented && strings.HasSuffix(status.Convert(err).Message(), "not implemented")
			if refused == slices.Contains(list, m.Name) {
				t.Errorf("%s/%s: %v", service, m.Name, err)
			}
		}
	}
	for service := range offered {
		t.Errorf("service %s isn't there", service)
	}
}
