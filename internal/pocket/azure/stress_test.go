package azure

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestStress has many callers do everything to a few groups at once, through a
// cloud that refuses some calls. Each group comes to rest, and one run at a time
// is all that a group ever has.
func TestStress(t *testing.T) {
	var mu sync.Mutex
	now, most := map[string]int{}, map[string]int{}
	c := newCloud(t, Options{Seed: 7, Executor: counting{run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("x\n"), For: 3 * time.Millisecond} }), func(image string, by int) {
		mu.Lock()
		defer mu.Unlock()
		now[image] += by
		most[image] = max(most[image], now[image])
	}}})
	c.TuneKnobs(func(k *Knobs) {
		k.Pace.Pending, k.Pace.Pull, k.Pace.Backoff = time.Millisecond, time.Millisecond, time.Millisecond
	})
	remove := c.Faults().Add(fault.Rule{Share: 0.1, Effect: fault.Effect{Refuse: Throttled()}})
	token := c.AccessToken("https://management.azure.com")
	const groups, callers, calls = 4, 8, 60
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range calls {
				name := fmt.Sprintf("g%d", (caller+i)%groups)
				path, version := c.groupPath(name), "?api-version=2023-05-01"
				g := with(job("x"), func(g *arm.ContainerGroup) { *g.Properties.Containers[0].Properties.Image = name })
				if (caller+i)%3 == 0 {
					*g.Properties.RestartPolicy = arm.ContainerGroupRestartPolicyOnFailure
				}
				var a answer
				switch (caller*7 + i) % 8 {
				case 0, 1, 2:
					a = c.send(t, http.MethodPut, path+version, g, token)
				case 3:
					a = c.send(t, http.MethodPost, path+"/stop"+version, nil, token)
				case 4:
					a = c.send(t, http.MethodPost, path+"/start"+version, nil, token)
				case 5:
					a = c.send(t, http.MethodPost, path+"/restart"+version, nil, token)
				case 6:
					a = c.send(t, http.MethodGet, path+"/containers/main/logs"+version, nil, token)
				default:
					if name == "g0" { // its name may be another's while it still ends
						a = c.send(t, http.MethodDelete, path+version, nil, token)
					} else {
						a = c.send(t, http.MethodGet, path+version, nil, token)
					}
				}
				if a.status >= 500 {
					t.Errorf("%s: %d %v", name, a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	remove()
	for i := range groups {
		name := fmt.Sprintf("g%d", i)
		testwait.Until(t, long, "rest of "+name, func() bool {
			a := c.call(t, http.MethodGet, c.groupPath(name), nil)
			if a.status == 404 {
				return true
			}
			state := a.body["properties"].(doc)["instanceView"].(doc)["state"]
			return state == "Succeeded" || state == "Failed" || state == "Stopped"
		})
		mu.Lock()
		if n := most[name]; n == 0 || n > 1 && name != "g0" {
			t.Errorf("%s had %d runs at a time", name, n)
		}
		if now[name] != 0 {
			t.Errorf("%d runs of %s go on", now[name], name)
		}
		mu.Unlock()
	}
}

// counting counts the runs of each image.
type counting struct {
	run.Executor
	count func(image string, by int)
}

// Start implements run.Executor.
func (c counting) Start(ctx context.Context, s run.Spec) (run.Container, error) {
	inner, err := c.Executor.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	c.count(s.Image, 1)
	out := counted{inner, make(chan struct{})}
	go func() {
		<-inner.Done()
		c.count(s.Image, -1)
		close(out.done)
	}()
	return out, nil
}

// counted is over when it is counted.
type counted struct {
	run.Container
	done chan struct{}
}

// Done is closed at its end.
func (c counted) Done() <-chan struct{} { return c.done }
