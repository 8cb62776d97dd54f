package azure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestFaults loses a reply, refuses calls and slows one down.
func TestFaults(t *testing.T) {
	c := newCloud(t, Options{})
	c.Faults().Add(fault.Rule{Action: "ContainerGroups_CreateOrUpdate", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := c.groups.BeginCreateOrUpdate(t.Context(), ResourceGroup, "lost", job("true"), nil); err == nil || codeOf(err) != "" {
		t.Fatalf("the reply arrived: %v", err)
	}
	c.until(t, "lost", "Succeeded") // it was carried out, once
	c.Faults().Add(fault.Rule{Action: "ContainerGroups_CreateOrUpdate", Count: 1, Effect: fault.Effect{Reset: true}})
	if _, err := c.groups.BeginCreateOrUpdate(t.Context(), ResourceGroup, "cut", job("true"), nil); err == nil {
		t.Fatal("the connection held")
	}
	if n := c.Calls().Count("ContainerGroups_CreateOrUpdate"); n != 2 {
		t.Errorf("%d calls are counted", n)
	}
	for code, refusal := range map[string]*fault.Refusal{
		"ServiceUnavailable": Capacity(Location, 1, 1.5), "ContainerGroupQuotaReached": Quota("StandardCores", Location, 10, 10, 1), "InaccessibleImage": InaccessibleImage("x", "cut"),
		"RegistryErrorResponse": RegistryError("index.docker.io"), "ContainerGroupTransitioning": Transitioning("cut"), "TooManyRequests": Throttled()} {
		c.Faults().Add(fault.Rule{Action: "ContainerGroups_CreateOrUpdate", Count: 1, Effect: fault.Effect{Refuse: refusal}})
		if a := c.put(t, "cut", job("true")); a.code() != code || a.status != refusal.Status || a.rule() != "" {
			t.Errorf("%s: %d %v", code, a.status, a.body)
		}
	}
	if a := c.call(t, http.MethodGet, c.groupPath("cut"), nil); a.status != 404 {
		t.Errorf("a refused group is there: %v", a.body)
	}
	c.Faults().Add(fault.Rule{Action: "GetSecret", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 503, RetryAfter: 1500 * time.Millisecond}}})
	if a := c.secretCall(t, http.MethodGet, "/secrets/x", nil); a.status != 503 || a.header.Get("Retry-After") != "2" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for _, call := range c.Calls().Calls("Token") {
		if len(call.Request) > 0 {
			t.Errorf("a password is kept: %s", call.Request)
		}
	}
}

// TestConsistency shows new groups late, and deleted ones long.
func TestConsistency(t *testing.T) {
	c := newCloud(t, Options{})
	const delay = 200 * time.Millisecond
	c.TuneKnobs(func(k *Knobs) { k.GetDelay, k.ListDelay, k.DeleteDelay = delay, 2*delay, delay })
	c.create(t, "late", job("true"))
	list := func() int {
		return len(c.call(t, http.MethodGet, "/subscriptions/"+SubscriptionID+"/providers/"+groupType, nil).body["value"].([]any))
	}
	if a := c.call(t, http.MethodGet, c.groupPath("late"), nil); a.status != 404 || list() != 0 {
		t.Errorf("it is seen at once: %d", a.status)
	}
	// What is named like it is the same group all the same.
	testwait.Until(t, long, "group", func() bool { return c.call(t, http.MethodGet, c.groupPath("late"), nil).status == 200 })
	testwait.Until(t, long, "list", func() bool { return list() == 1 })
	c.until(t, "late", "Succeeded")
	if a := c.call(t, http.MethodDelete, c.groupPath("late"), nil); a.status != 200 {
		t.Fatal(a.body)
	}
	if a := c.call(t, http.MethodGet, c.groupPath("late"), nil); a.status != 200 || list() != 1 {
		t.Errorf("it is gone at once: %d", a.status)
	}
	testwait.Until(t, long, "end of the group", func() bool { return c.call(t, http.MethodGet, c.groupPath("late"), nil).status == 404 && list() == 0 })
}

// TestPages walks through lists.
func TestPages(t *testing.T) {
	c := newCloud(t, Options{})
	other := "/subscriptions/" + SubscriptionID + "/resourceGroups/other"
	if a := c.call(t, http.MethodPut, other, doc{"location": Location}); a.status != 201 {
		t.Fatal(a.body)
	}
	for _, name := range []string{"ee", "cc", "aa", "dd", "bb"} {
		c.create(t, name, job("true"))
	}
	if a := c.call(t, http.MethodPut, other+"/providers/"+groupType+"/zz", job("true")); a.status != 201 {
		t.Fatal(a.body)
	}
	c.TuneKnobs(func(k *Knobs) { k.PageSize, k.ListsView = 2, true })
	walk := func(more func() bool, next func() ([]*arm.ContainerGroup, error)) (pages int, names []string) {
		for more() {
			list, err := next()
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, g := range list {
				names = append(names, *g.Name)
				if g.Properties.InstanceView == nil {
					t.Errorf("%s has no view", *g.Name)
				}
			}
		}
		return pages, names
	}
	one := c.groups.NewListByResourceGroupPager(ResourceGroup, nil)
	pages, names := walk(one.More, func() ([]*arm.ContainerGroup, error) { p, err := one.NextPage(t.Context()); return p.Value, err })
	if pages != 3 || !slices.Equal(names, []string{"aa", "bb", "cc", "dd", "ee"}) {
		t.Errorf("%d pages: %v", pages, names)
	}
	all := c.groups.NewListPager(nil)
	pages, names = walk(all.More, func() ([]*arm.ContainerGroup, error) { p, err := all.NextPage(t.Context()); return p.Value, err })
	if pages != 3 || len(names) != 6 || !slices.Contains(names, "zz") {
		t.Errorf("%d pages: %v", pages, names)
	}
}

// TestClock dates all by the cloud's own clock.
func TestClock(t *testing.T) {
	c := newCloud(t, Options{Now: func() time.Time { return time.Now().Add(3 * time.Hour) }})
	a := c.put(t, "one", job("true"))
	if date, err := http.ParseTime(a.header.Get("Date")); err != nil || time.Until(date) < 2*time.Hour {
		t.Errorf("the reply is of %v, %v", date, err)
	}
	if s := mainOf(c.until(t, "one", "Succeeded")).CurrentState; time.Until(*s.StartTime) < 2*time.Hour || s.FinishTime.Before(*s.StartTime) {
		t.Errorf("the container began at %v", s.StartTime)
	}
}

// TestLimits keeps quotas and rates, and tells what is left.
func TestLimits(t *testing.T) {
	var offset atomic.Int64
	c := newCloud(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	a := c.put(t, "aa", job("sleep", "100"))
	if got := []string{a.header.Get("x-ms-ratelimit-remaining-subscription-resource-requests-pt5m"), a.header.Get("x-ms-ratelimit-remaining-subscription-resource-requests-pt1h")}; !slices.Equal(got, []string{"99", "299"}) {
		t.Errorf("without limits %v are left", got)
	}
	c.SetLimits(Limits{Groups: 3, Cores: 2})
	refused := func(name, quota string) {
		t.Helper()
		if a := c.put(t, name, job("true")); a.status != 400 || a.code() != "ContainerGroupQuotaReached" || a.rule() != ruleQuota || !strings.Contains(a.body["error"].(doc)["message"].(string), quota) {
			t.Errorf("%s: %d %v", name, a.status, a.body)
		}
	}
	c.create(t, "bb", job("sleep", "100"))
	c.until(t, "bb", "Running")
	refused("cc", "container group quota 'StandardCores' exceeded in region 'westeurope'. Limit: '2', Usage: '2' Requested: '1'.")
	usage := func() (out []string) {
		pager := c.location.NewListUsagePager(Location, nil)
		p, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range p.Value {
			out = append(out, *u.Name.Value+" "+strconv.Itoa(int(*u.CurrentValue))+"/"+strconv.Itoa(int(*u.Limit)))
		}
		return out
	}
	if got := usage(); !slices.Equal(got, []string{"ContainerGroups 2/3", "StandardCores 2/2"}) {
		t.Errorf("the usage is %v", got)
	}
	// An ended group gives its cores back, but not its place.
	if a := c.call(t, http.MethodPost, c.groupPath("bb")+"/stop", nil); a.status != 204 {
		t.Fatal(a.body)
	}
	c.until(t, "bb", "Stopped")
	c.create(t, "cc", job("true"))
	c.until(t, "cc", "Succeeded")
	refused("dd", "container group quota 'ContainerGroups' exceeded")

	c.SetLimits(Limits{CreatesPerHour: 3, CreatesPer5Minutes: 2, DeletesPer5Minutes: 1})
	status := func(method, name string) (int, string) {
		a := c.call(t, method, c.groupPath(name), map[string]any{"PUT": job("true"), "DELETE": nil}[method])
		return a.status, a.header.Get("Retry-After")
	}
	for _, k := range []struct {
		method, name string
		after        time.Duration
		status       int
		again        string
	}{
		{"PUT", "r1", 0, 201, ""}, {"PUT", "r2", 0, 201, ""}, {"PUT", "r3", 0, 429, "300"}, {"PUT", "r3", 5*time.Minute + time.Second, 201, ""},
		{"PUT", "r4", 6 * time.Minute, 429, "3240"}, {"PUT", "r4", time.Hour + time.Second, 201, ""},
		{"DELETE", "r1", time.Hour, 200, ""}, {"DELETE", "r2", time.Hour, 429, "300"},
	} {
		offset.Store(int64(k.after))
		got, again := status(k.method, k.name)
		near := again == k.again // the clock goes on meanwhile
		if n, err := strconv.Atoi(again); err == nil && !near {
			want, _ := strconv.Atoi(k.again)
			near = n <= want && n > want-60
		}
		if got != k.status || !near {
			t.Errorf("%s %s after %s: %d, again in %q", k.method, k.name, k.after, got, again)
		}
	}
	offset.Store(0)
	c.SetLimits(Limits{Reads: Bucket{Size: 3, PerSecond: 2}})
	read := func() answer { return c.call(t, http.MethodGet, c.groupPath("none"), nil) }
	for i := range 3 {
		if a := read(); a.status != 404 || a.header.Get("x-ms-ratelimit-remaining-subscription-reads") != strconv.Itoa(2-i) {
			t.Errorf("read %d: %d %v", i, a.status, a.header)
		}
	}
	if a := read(); a.status != 429 || a.code() != "SubscriptionRequestsThrottled" || a.rule() != ruleARMThrottled || a.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %v", a.status, a.body, a.header)
	}
	if a := c.put(t, "r5", job("true")); a.status != 201 || a.header.Get("x-ms-ratelimit-remaining-subscription-writes") != "199" {
		t.Errorf("%d %v", a.status, a.header)
	}
	offset.Store(int64(time.Second))
	if a := read(); a.status != 404 {
		t.Errorf("a second later: %d", a.status)
	}
	if APILimits() != (Limits{100, 100, 300, 100, 300, 100, Bucket{250, 25}, Bucket{200, 10}, Bucket{200, 10}}) {
		t.Error("the documented limits changed")
	}
}

// TestImages refuses images that aren't there.
func TestImages(t *testing.T) {
	c := newCloud(t, Options{})
	c.TuneKnobs(func(k *Knobs) { k.Images = []string{"there"} })
	if a := c.put(t, "one", job("true")); a.status != 400 || a.code() != "InaccessibleImage" || a.rule() != ruleInaccessible {
		t.Errorf("%d %v", a.status, a.body)
	}
	c.create(t, "one", with(job("true"), func(g *arm.ContainerGroup) { g.Properties.Containers[0].Properties.Image = to.Ptr("there") }))
}

// TestState starts a second server on what the first left.
func TestState(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	first := newCloud(t, Options{State: folder})
	spec := with(job("sh", "-c", `echo "$S"`), func(g *arm.ContainerGroup) {
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("S"), SecureValue: to.Ptr("hush")}}
	})
	first.create(t, "ended", spec)
	first.until(t, "ended", "Succeeded")
	first.create(t, "runs", job("sleep", "100"))
	first.until(t, "runs", "Running")
	if _, err := first.PutSecret("other", "db", "x"); err != nil {
		t.Fatal(err)
	}
	token := first.AccessToken("https://management.azure.com")
	ca := string(first.CA())
	if killed := newCloud(t, Options{State: folder}); string(killed.CA()) != ca {
		t.Error("a server that was killed leaves another authority")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(folder, stateFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state is %v, %v", info, err)
	}
	if data, err := os.ReadFile(filepath.Join(folder, CAFile)); err != nil || string(data) != ca {
		t.Errorf("the certificate beside it: %v", err)
	}

	second := newCloud(t, Options{State: folder})
	if string(second.CA()) != ca {
		t.Error("it has another authority")
	}
	if a := second.send(t, http.MethodGet, second.groupPath("ended")+"?api-version=2023-05-01", nil, token); a.status != 200 {
		t.Errorf("the old token: %d %v", a.status, a.body)
	}
	if g := second.get(t, "runs"); *g.Properties.InstanceView.State != "Failed" || *mainOf(g).CurrentState.ExitCode < 128 {
		t.Errorf("what ran ended with %d", *mainOf(g).CurrentState.ExitCode)
	}
	if l := *second.log(t, "ended", nil); l != "hush\n" {
		t.Errorf("the log is %q", l)
	}
	if a := second.call(t, http.MethodPost, second.groupPath("ended")+"/start", nil); a.status != 202 {
		t.Errorf("start: %v", a.body)
	}
	testwait.Until(t, long, "another run", func() bool { l := second.log(t, "ended", nil); return l != nil && *l == "hush\n" })
	if a := second.secretCall(t, http.MethodGet, "/vaults/other/secrets/db", nil); a.body["value"] != "x" {
		t.Errorf("the secret is %v", a.body)
	}
}

// TestServe serves on a listener of one's own until it is closed.
func TestServe(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA())
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2", "http/1.1"}}}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if p := conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("it speaks %q", p)
	}
	_ = conn.Close()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestVirtualTime lets the platform give up after its half hour.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: 3 * time.Hour} })})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		token := s.AccessToken("https://management.azure.com")
		path := "/subscriptions/" + SubscriptionID + "/resourceGroups/" + ResourceGroup + "/providers/" + groupType + "/"
		call := func(method, name string, body any) string {
			data, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			req := httptest.NewRequestWithContext(t.Context(), method, path+name+"?api-version=2023-05-01", bytes.NewReader(data))
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, req)
			var out arm.ContainerGroup
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code > 201 {
				t.Fatalf("%d %v: %s", w.Code, err, w.Body)
			}
			return *out.Properties.ProvisioningState + " " + *out.Properties.InstanceView.State
		}
		s.Strike(Mishap{Group: "stuck", Stage: StagePull})
		call(http.MethodPut, "stuck", job("x"))
		call(http.MethodPut, "long", job("x"))
		for _, k := range []struct {
			after       time.Duration
			stuck, long string
		}{{time.Minute, "Creating Pending", "Succeeded Running"}, {28 * time.Minute, "Creating Pending", "Succeeded Running"}, {2 * time.Minute, "Failed Failed", "Succeeded Running"}} {
			time.Sleep(k.after)
			synctest.Wait()
			if got := []string{call(http.MethodGet, "stuck", nil), call(http.MethodGet, "long", nil)}; !slices.Equal(got, []string{k.stuck, k.long}) {
				t.Errorf("%s later: %q", k.after, got)
			}
		}
	})
}

// TestCertificate is good for loopback alone, and is needed.
func TestCertificate(t *testing.T) {
	c := newCloud(t, Options{})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	leaf, err := x509.ParseCertificate(c.TLS().Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"127.0.0.1": true, "localhost": true, "a.vault.localhost": true, "management.azure.com": false, "192.0.2.1": false} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if conn, err := (&tls.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "https://")); err == nil {
		_ = conn.Close()
		t.Error("it is trusted without its authority")
	}
}

// TestDocker runs a group in a real container, with the image's own programs and
// a memory limit that the kernel keeps.
func TestDocker(t *testing.T) {
	executor, err := run.NewDocker(testneed.Docker(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{Executor: executor})
	image := func(g arm.ContainerGroup, image string) arm.ContainerGroup {
		g.Properties.Containers[0].Properties.Image = &image
		*g.Properties.Containers[0].Properties.Resources.Requests.MemoryInGB = 0.1
		return g
	}
	c.create(t, "well", image(job("sh", "-c", `echo "in a container: $0"; exit 4`, "yes"), testneed.Image))
	c.create(t, "greedy", image(job("sh", "-c", "tail /dev/zero"), testneed.Image))
	c.create(t, "missing", image(job("true"), "no/such:image"))
	if s := mainOf(c.until(t, "well", "Failed")).CurrentState; *s.ExitCode != 4 || *c.log(t, "well", nil) != "in a container: yes\n" {
		t.Errorf("%+v", s)
	}
	if s := mainOf(c.until(t, "greedy", "Failed")).CurrentState; *s.ExitCode != 137 || *s.DetailStatus != "OOMKilled" {
		t.Errorf("greedy: %+v", s)
	}
	c.untilThat(t, "missing", "without its image", func(g arm.ContainerGroup) bool {
		s := mainOf(g).CurrentState
		return s != nil && *s.State == "Waiting" && *s.DetailStatus == "ImagePullBackOff"
	})
}
