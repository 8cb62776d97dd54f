package digitalocean

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long bounds the wait for what comes soon.
const long = 20 * time.Second

// doc is a JSON object.
type doc = map[string]any

// cloud is a server on a port, with DigitalOcean's own client.
type cloud struct {
	*Server
	url    string
	client *godo.Client
	http   *http.Client
}

// newCloud starts a server that is closed with the test, and then judges all
// that was said.
func newCloud(t testing.TB, o Options) *cloud {
	t.Helper()
	o.Record = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	c := &cloud{Server: s, url: web.URL, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
		c.judge(t)
	})
	c.client = c.as(t, "dop_v1_pocket")
	return c
}

// as returns a client with a token, which sends nothing twice.
func (c *cloud) as(t testing.TB, token string) *godo.Client {
	t.Helper()
	client, err := godo.New(&http.Client{Transport: bearer{token, c.http.Transport}}, godo.SetBaseURL(c.url))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// bearer adds a token.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// call sends a request as any client might, and returns status, reply and the
// rule that a refusal names.
func (c *cloud) call(t testing.TB, method, path string, body any) (status int, reply doc, rule string) {
	t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dop_v1_pocket")
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return resp.StatusCode, reply, resp.Header.Get(RuleHeader)
}

// image is a source that processes don't need.
func image() *godo.ImageSourceSpec {
	return &godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DockerHub, Registry: "library", Repository: "busybox", Tag: "local"}
}

// job is a job that runs before a deployment.
func job(name, command string) *godo.AppJobSpec {
	return &godo.AppJobSpec{Name: name, Kind: godo.AppJobSpecKind_PreDeploy, Image: image(), RunCommand: command}
}

// with changes a job.
func with(j *godo.AppJobSpec, change func(*godo.AppJobSpec)) *godo.AppJobSpec {
	change(j)
	return j
}

func kind(k godo.AppJobSpecKind) func(*godo.AppJobSpec) {
	return func(j *godo.AppJobSpec) { j.Kind = k }
}

// create makes an app of jobs, and returns it with its deployment's ID.
func (c *cloud) create(t testing.TB, name string, jobs ...*godo.AppJobSpec) (*godo.App, string) {
	t.Helper()
	app, _, err := c.client.Apps.Create(t.Context(), &godo.AppCreateRequest{Spec: &godo.AppSpec{Name: name, Jobs: jobs}})
	if err != nil {
		t.Fatal(err)
	}
	if app.PendingDeployment == nil {
		t.Fatalf("the new app shows no pending deployment: %v", app)
	}
	return app, app.PendingDeployment.ID
}

// deployment reads one.
func (c *cloud) deployment(t testing.TB, app, id string) *godo.Deployment {
	t.Helper()
	d, _, err := c.client.Apps.GetDeployment(t.Context(), app, id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// until waits for a deployment's phase.
func (c *cloud) until(t testing.TB, app, id string, phase godo.DeploymentPhase) *godo.Deployment {
	t.Helper()
	var d *godo.Deployment
	testwait.Until(t, long, "deployment in phase "+string(phase), func() bool {
		d = c.deployment(t, app, id)
		return d.Phase == phase
	})
	return d
}

// invocation waits for the phase of a job invocation.
func (c *cloud) invocation(t testing.TB, app, id string, phase godo.JobInvocationPhase) *godo.JobInvocation {
	t.Helper()
	var i *godo.JobInvocation
	testwait.Until(t, long, "invocation in phase "+string(phase), func() bool {
		var err error
		if i, _, err = c.client.Apps.GetJobInvocation(t.Context(), app, id, nil); err != nil {
			t.Fatal(err)
		}
		return i.Phase == phase
	})
	return i
}

// step finds a step of a deployment's progress.
func step(d *godo.Deployment, path ...string) *godo.DeploymentProgressStep {
	steps, found := d.Progress.Steps, (*godo.DeploymentProgressStep)(nil)
	for _, name := range path {
		found = nil
		for _, s := range steps {
			if s.Name == name {
				found, steps = s, s.Steps
			}
		}
	}
	return found
}

// get reads an address that a reply gave.
func (c *cloud) get(t testing.TB, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// within is a context with a deadline.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(cancel)
	return ctx
}
