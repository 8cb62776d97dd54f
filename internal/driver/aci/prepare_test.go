package aci

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/sdk"
)

// TestRefusals names field and value of what Container Instances can't do.
func TestRefusals(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	grace := time.Second
	for field, change := range map[string]func(s *sdk.JobSpec){
		"image":     func(s *sdk.JobSpec) { s.Image = "" },
		"user":      func(s *sdk.JobSpec) { s.User = "nobody" },
		"workdir":   func(s *sdk.JobSpec) { s.Workdir = "/tmp" },
		"grace":     func(s *sdk.JobSpec) { s.Grace = &grace },
		"cpu":       func(s *sdk.JobSpec) { s.CPU = 500 },
		"memory":    func(s *sdk.JobSpec) { s.Memory = 700 * mib },
		"network":   func(s *sdk.JobSpec) { s.Network = "host" },
		"args":      func(s *sdk.JobSpec) { s.Args, s.ImageEntrypoint = sdk.Argv{}, sdk.Argv{} },
		"args[0]":   func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} },
		"env.A-B":   func(s *sdk.JobSpec) { s.Env = sdk.Env{"A-B": "x"} },
		"env.A":     func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "\xff"} },
		"labels":    func(s *sdk.JobSpec) { s.Labels = map[string]string{"a/b": "x"} },
		"secrets.A": func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"A": "secret://aws-sm/a"} },
		"secrets.B": func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"B": "secret://azure-kv/name"} },
		"secrets.C": func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"C": "secret://azure-kv/vault/name#key"} },
		"secrets.D": func(s *sdk.JobSpec) {
			s.Secrets = map[string]sdk.SecretRef{"D": "secret://azure-kv/vault/name?version=1"}
		},
		"options.subnet":        func(s *sdk.JobSpec) { s.Options = []byte(`{"subnet":"default"}`) },
		"options.priority":      func(s *sdk.JobSpec) { s.Options = []byte(`{"priority":"spot","subnet":"` + subnet + `"}`) },
		"options.identities[0]": func(s *sdk.JobSpec) { s.Options = []byte(`{"identities":["me"]}`) },
		"options.registries[0]": func(s *sdk.JobSpec) { s.Options = []byte(`{"registries":[{"server":"r.azurecr.io"}]}`) },
		"options.registries[0].server": func(s *sdk.JobSpec) {
			s.Options = []byte(`{"registries":[{"server":"https://r","username":"u","password":"secret://env/P"}]}`)
		},
		"options.registries[1].server": func(s *sdk.JobSpec) {
			s.Options = []byte(`{"registries":[{"server":"r","username":"u","password":"secret://env/P"},{"server":"R","username":"u","password":"secret://env/P"}]}`)
		},
		"options.registries[0].password": func(s *sdk.JobSpec) {
			s.Options = []byte(`{"registries":[{"server":"r","username":"u","password":"hunter2"}]}`)
		},
		"options.registries[0].identity": func(s *sdk.JobSpec) {
			s.Options = []byte(`{"registries":[{"server":"r","identity":"` + identity + `"}]}`)
		},
		"options.tags.windlass-run": func(s *sdk.JobSpec) { s.Options = []byte(`{"tags":{"windlass-run":"x"}}`) },
		"options.zone":              func(s *sdk.JobSpec) { s.Options = []byte(`{"zone":"9"}`) },
	} {
		spec := shell("true")
		change(&spec)
		l := w.Prepare(p, spec)
		if len(l.Problems) != 1 || l.Problems[0].Field != field || l.Problems[0].Message == "" || len(l.Request) > 0 {
			t.Errorf("%s: %s", field, sdk.JoinProblems(l.Problems))
		}
		// In a job's own unit: whoever shows it writes it as it was typed.
		if field == "cpu" && l.Problems[0].Value != "500" {
			t.Errorf("cpu is shown as %q", l.Problems[0].Value)
		}
		if strings.Contains(sdk.JoinProblems(l.Problems), "hunter2") {
			t.Error("a problem shows what may be a password")
		}
	}
	if n := w.Count(actionPut); n != 0 {
		t.Errorf("%d groups were made", n)
	}
}

// TestOptionsInOneRound: an option that isn't known and a wrong value of one that is
// are told together.
func TestOptionsInOneRound(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	spec := shell("true")
	spec.Options = []byte(`{"subnet":"default","subnets":["a"],"zone":"1"}`)
	l := w.Prepare(w.Open(), spec)
	var fields []string
	for _, p := range l.Problems {
		fields = append(fields, p.Field)
	}
	slices.Sort(fields)
	if !slices.Equal(fields, []string{"options.subnet", "options.subnets"}) {
		t.Errorf("%s", sdk.JoinProblems(l.Problems))
	}
}

const (
	subnet   = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/s"
	identity = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i"
)

// TestTheGroupThatIsAskedFor: options reach Azure, and restarts are never asked for.
func TestTheGroupThatIsAskedFor(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"tags": map[string]string{"team": "config", "env": "prod"}})
	p := w.Open()
	w.Secrets.Set("REGISTRY_PASSWORD", []byte("canary-registry-password"))
	spec := shell("exit 0")
	spec.CPU, spec.Memory, spec.Labels, spec.Name = 1500, 2*gib, map[string]string{"team": "job"}, strings.Repeat("Name é ", 60)
	spec.Options = json.RawMessage(`{"subnet":"` + subnet + `","identities":["` + identity + `"],"system_identity":true,"tags":{"Cost":"1"},
		"registries":[{"server":"r.example.com","username":"u","password":"secret://env/REGISTRY_PASSWORD"},{"server":"r.azurecr.io","identity":"` + identity + `"}]}`)
	l := w.Plan(p, spec)
	if strings.Contains(string(l.Request), "canary") {
		t.Error("the launch holds a password")
	}
	h := w.Run(p, l)
	g, err := p.getGroup(t.Context(), "test", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := g.Properties.Containers[0].Properties
	switch {
	case *g.Properties.RestartPolicy != arm.ContainerGroupRestartPolicyNever || *g.Location != pocket.Location || *g.Properties.OSType != arm.OperatingSystemTypesLinux:
		t.Errorf("restart policy %s, location %s, OS %s", *g.Properties.RestartPolicy, *g.Location, *g.Properties.OSType)
	case *c.Resources.Requests.CPU != 1.5 || *c.Resources.Requests.MemoryInGB != 2:
		t.Errorf("%v cores, %v GB", *c.Resources.Requests.CPU, *c.Resources.Requests.MemoryInGB)
	case tag(g, "team") != "job" || tag(g, "env") != "prod" || tag(g, "cost") != "1" || len(tag(g, tagName)) > 256 || tag(g, sdk.LabelOwner) != w.Owner:
		t.Errorf("tags %v", g.Tags)
	case len(g.Properties.SubnetIDs) != 1 || *g.Properties.SubnetIDs[0].ID != subnet:
		t.Error("the subnet is missing")
	case g.Identity == nil || *g.Identity.Type != arm.ResourceIdentityTypeSystemAssignedUserAssigned || g.Identity.UserAssignedIdentities[identity] == nil:
		t.Errorf("identity %+v", g.Identity)
	case len(g.Properties.ImageRegistryCredentials) != 2:
		t.Errorf("%d registries", len(g.Properties.ImageRegistryCredentials))
	}
	w.Unseen("canary-registry-password", actionPut)
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Errorf("%s: %s", st.State, st.Message)
	}
}

// TestF14LongNames: an owner that no tag can hold as it is, is told and found as it
// is.
func TestF14LongNames(t *testing.T) {
	for _, owner := range []string{"Team Ω <ops>", "long " + strings.Repeat("owner ", 60)} {
		w := newWorld(t, pocket.Options{}, nil)
		w.Owner = owner
		p := w.Open()
		l := w.Plan(p, shell("true"))
		h := w.Run(p, l)
		w.Ended(p, h)
		res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID, Owner: owner})
		if err != nil || len(res.Jobs) != 1 || res.Jobs[0].Owner != owner || res.Jobs[0].Handle.ID != h.ID {
			t.Errorf("found %+v, %v", res, err)
		}
		n := 0
		for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: owner}) {
			if n++; err != nil || o.Owner != owner {
				t.Errorf("listed %+v, %v", o, err)
			} else if _, err := p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d objects are listed", n)
		}
	}
}

// TestCommand: entrypoint and arguments become the one list that there is.
func TestCommand(t *testing.T) {
	p, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "x", Owner: "o", LedgerID: "l", Credentials: pocketCredentials(),
		Config: []byte(`{"subscription":"00000000-1111-2222-3333-444444444444","resource_group":"rg","location":"westeurope"}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	ids := sdk.NewIDSource(sdk.SystemClock())
	for name, c := range map[string]struct {
		entry, args, image sdk.Argv
		want               string
	}{
		"image's own":              {nil, nil, nil, "[]"},
		"arguments":                {nil, sdk.Argv{"a", "b"}, sdk.Argv{"i", "-x"}, "[i -x a b]"},
		"arguments, no entrypoint": {nil, sdk.Argv{"a", "b"}, sdk.Argv{}, "[a b]"},
		"cleared arguments":        {nil, sdk.Argv{}, sdk.Argv{"i"}, "[i]"},
		"entrypoint":               {sdk.Argv{"e"}, nil, sdk.Argv{"i"}, "[e]"},
		"both":                     {sdk.Argv{"e", "f"}, sdk.Argv{"a"}, nil, "[e f a]"},
		"cleared entrypoint":       {sdk.Argv{}, sdk.Argv{"a"}, sdk.Argv{"i"}, "[a]"},
		"nothing left":             {sdk.Argv{}, nil, sdk.Argv{"i"}, "args"},
		"nothing at all":           {nil, sdk.Argv{}, sdk.Argv{}, "args"},
	} {
		l, err := p.(*provider).PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Expires: time.Unix(1e9, 0),
			Spec: sdk.JobSpec{Image: "x", Entrypoint: c.entry, Args: c.args, ImageEntrypoint: c.image}})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Problems) > 0 {
			if l.Problems[0].Field != c.want {
				t.Errorf("%s: %s", name, sdk.JoinProblems(l.Problems))
			}
			continue
		}
		req, err := decodeRequest(l.Request)
		if err != nil {
			t.Fatal(err)
		}
		words := []string{}
		for _, word := range req.Group.Properties.Containers[0].Properties.Command {
			words = append(words, *word)
		}
		if fmt.Sprint(words) != c.want {
			t.Errorf("%s: %v, want %s", name, words, c.want)
		}
	}
}

// images is a registry with one image, whose entrypoint is env -i, for a user.
func images(t *testing.T) (host string) {
	config := []byte(`{"architecture":"amd64","config":{"Entrypoint":["env","-i"]}}`)
	sum := sha256.Sum256(config)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "canary-registry-password" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/v2/team/app/manifests/1":
			_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"config":{"digest":%q}}`, digest)
		case "/v2/team/app/blobs/" + digest:
			_, _ = w.Write(config)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://")
}

// TestRegistryTellsTheEntrypoint: where the image's own entrypoint has to be known
// its registry is asked, as the user that is configured; an answer is kept with the
// launch, and none is a refusal that says what to do.
func TestRegistryTellsTheEntrypoint(t *testing.T) {
	host := images(t)
	w := newWorld(t, pocket.Options{}, map[string]any{"registries": []map[string]string{{"server": host, "username": "u", "password": "secret://env/REGISTRY_PASSWORD"}}})
	w.Secrets.Set("REGISTRY_PASSWORD", []byte("canary-registry-password"))
	p := w.Open()
	ids := sdk.NewIDSource(sdk.SystemClock())
	prepare := func(image string) sdk.Launch {
		l, err := p.PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Expires: time.Unix(1e9, 0),
			Spec: sdk.JobSpec{Image: image, Args: sdk.Argv{"echo", "hello"}}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := prepare(host + "/team/app:1")
	if len(l.Problems) > 0 || l.Read[readEntrypoint] == "" {
		t.Fatalf("read %v: %s", l.Read, sdk.JoinProblems(l.Problems))
	}
	req, err := decodeRequest(l.Request)
	if err != nil || len(req.Group.Properties.Containers[0].Properties.Command) != 4 {
		t.Errorf("command %v, %v", req.Group.Properties.Containers[0].Properties.Command, err)
	}
	for _, image := range []string{host + "/team/other:1", "Not An Image"} {
		l := prepare(image)
		last := len(l.Problems) - 1
		if last < 0 || image == host+"/team/other:1" && (l.Problems[last].Field != "image_entrypoint" || l.Problems[last].Code != sdk.FailedPrecondition || !strings.Contains(l.Problems[last].Message, "404")) {
			t.Errorf("%s: %s", image, sdk.JoinProblems(l.Problems))
		}
	}
	w.Unseen("canary-registry-password")
}

// TestMissingSecret: a secret, or a version, that Key Vault doesn't have is refused
// before launch by its reference, and no value is read for it.
func TestMissingSecret(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	if _, err := w.cloud.PutSecret(pocket.Vault, "there", "value"); err != nil {
		t.Fatal(err)
	}
	for ref, missing := range map[sdk.SecretRef]bool{
		"secret://azure-kv/" + pocket.Vault + "/there":                                          false,
		"secret://azure-kv/" + pocket.Vault + "/none":                                           true,
		"secret://azure-kv/" + pocket.Vault + "/there?version=0123456789abcdef0123456789abcdef": true,
	} {
		spec := shell("true")
		spec.Secrets = map[string]sdk.SecretRef{"S": ref}
		l := w.Prepare(p, spec)
		if got := slices.ContainsFunc(l.Problems, func(p sdk.Problem) bool {
			return p.Field == "secrets.S" && p.Value == string(ref) && strings.Contains(p.Message, "the vault doesn't have it")
		}); got != missing {
			t.Errorf("%s: %s", ref, sdk.JoinProblems(l.Problems))
		}
	}
	if n := w.Count("GetSecret"); n != 0 {
		t.Errorf("%d values were read", n)
	}
}

// TestSecretsAreRead: a secret that can't be read ends the launch before anything
// is sent, and says why.
func TestSecretsAreRead(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	if _, err := w.cloud.PutSecret(pocket.Vault, "there", "value"); err != nil {
		t.Fatal(err)
	}
	run := func(ref sdk.SecretRef) error {
		spec := shell(`test "$S" = value`)
		spec.Secrets = map[string]sdk.SecretRef{"S": ref}
		res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, spec)})
		if err == nil {
			if st := w.Ended(p, res.Handle); st.State != sdk.StateSucceeded {
				t.Errorf("%s: %s", ref, st.Message)
			}
		}
		return err
	}
	if err := run("secret://azure-kv/" + pocket.Vault + "/there"); err != nil {
		t.Fatal(err)
	}
	before := w.Count(actionPut)
	// Without the right to look, it is the launch that finds out.
	blind := w.cloud.Deny("Microsoft.KeyVault/vaults/secrets/readMetadata/action")
	if err := run("secret://azure-kv/" + pocket.Vault + "/missing"); sdk.CodeOf(err) != sdk.NotFound || !strings.Contains(err.Error(), "secret://azure-kv/"+pocket.Vault+"/missing") {
		t.Errorf("missing: %v", err)
	}
	blind()
	restore := w.cloud.Deny("Microsoft.KeyVault/vaults/secrets/getSecret/action")
	if err := run("secret://azure-kv/" + pocket.Vault + "/there"); sdk.CodeOf(err) != sdk.PermissionDenied || !strings.Contains(err.Error(), "Key Vault Secrets User") {
		t.Errorf("no rights: %v", err)
	}
	restore()
	w.Secrets.Set("BYTES", []byte("\xff"))
	if err := run("secret://env/BYTES"); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("no text: %v", err)
	}
	if n := w.Count(actionPut) - before; n != 0 {
		t.Errorf("%d groups were asked for", n)
	}
}

// FuzzF14GroupNames: a group's name is legal, and two attempts have two.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules#microsoftcontainerinstance
func FuzzF14GroupNames(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), []byte("0123456789abcdeg"))
	legal := form(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var x, y sdk.ID
		copy(x[:], a)
		copy(y[:], b)
		if x.IsZero() || y.IsZero() {
			return // no attempt has it
		}
		if n := groupID(x); len(n) > 63 || !legal().MatchString(n) {
			t.Errorf("name %q", n)
		}
		if (x == y) != (groupID(x) == groupID(y)) {
			t.Errorf("%s and %s have the names %s and %s", x, y, groupID(x), groupID(y))
		}
	})
}

// FuzzRequest: a stored request is refused, or is one that can be sent.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"group":{"properties":{"containers":[{"name":"main","properties":{"image":"x"}}]}},"milli_cpu":1500,"memory_mib":1024}`))
	f.Add([]byte(`{"group":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeRequest(raw)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			return // it holds what no launch of ours does
		}
		if _, err := decodeRequest(again); err != nil {
			t.Errorf("%s became %s: %v", raw, again, err)
		}
	})
}

func TestPage(t *testing.T) {
	var words []string
	for _, r := range rights() {
		words = append(words, r.action)
	}
	for _, f := range append(configSchema().Fields, optionsSchema().Fields...) {
		words = append(words, "`"+f.Name+"`")
	}
	drivertest.PageNames(t, Driver(), words...)
}

// TestRefusalsInOneRound: nothing that is refused hides anything else.
func TestRefusalsInOneRound(t *testing.T) {
	spec := drivertest.Refusable(sdk.JobSpec{Image: "app", CPU: 500, Memory: 1<<30 + 1, Args: sdk.Argv{"\xff"}, ImageEntrypoint: sdk.Argv{}, Options: []byte(`{"zon":"1"}`)})
	drivertest.OneRound(t, newWorld(t, pocket.Options{}, nil).Open(), spec, "workdir", "user", "grace", "gpu", "ephemeral_storage", "pids", "network", "mounts[0]", "files[0]", "files[1]", "stdin", "profile", "cpu", "memory", "args[0]", "options.zon")
}
