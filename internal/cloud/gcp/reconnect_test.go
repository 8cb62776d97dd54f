package gcp

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestReconnectsSoon: however long nobody was there, the next try to connect comes
// soon after the last.
func TestReconnectsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var longest time.Duration
		tries := 0
		opts := append(reconnecting(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				now := time.Now()
				if tries++; tries > 1 {
					longest = max(longest, now.Sub(last))
				}
				last = now
				return nil, errors.New("connection refused")
			}))
		conn, err := grpc.NewClient("passthrough:///127.0.0.1:1", opts...)
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err == nil {
				t.Fatal("there is an answer")
			}
			time.Sleep(time.Second)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if tries < 100 || longest > 8*time.Second {
			t.Errorf("%d tries in ten minutes, the longest wait between two %s", tries, longest)
		}
	})
}
