package aci

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

const actionPut = "ContainerGroups_CreateOrUpdate"

func newDriverWorld(t testing.TB) *drivertest.World[*provider] {
	t.Helper()
	return newWorld(t, pocket.Options{}, nil).World
}

// mutations are all calls that change something.
func mutations() []drivertest.Mutation {
	return []drivertest.Mutation{
		{Action: actionPut, Op: providertest.OpRunJob},
		{Action: "ContainerGroups_Stop", Op: providertest.OpCancelJob},
		{Action: "ContainerGroups_Delete", Op: providertest.OpCleanupJob},
		{Action: "ContainerGroups_Update", Op: providertest.OpRenewExpiry},
	}
}

func TestNoRetriesOfTheClient(t *testing.T) {
	drivertest.SendsOnce(t, newDriverWorld, mutations(), map[string]*fault.Refusal{
		"throttled": pocket.Throttled(), "unavailable": {Status: 503, Code: "ServiceUnavailable", Message: "try again"}, "gateway": {Status: 504, Code: "GatewayTimeout", Message: "no answer"}})
}

func TestLostReplies(t *testing.T) {
	drivertest.OutlivesLostReplies(t, newDriverWorld, mutations())
}

func TestEndsWithItsContext(t *testing.T) {
	drivertest.EndsWithItsContext(t, newDriverWorld, mutations())
}

func TestLostReplyRunsOnce(t *testing.T) {
	newDriverWorld(t).OneJobPerLaunch(actionPut)
}

func TestCredentialsStaySecret(t *testing.T) {
	newDriverWorld(t).CredentialsStaySecret("ContainerGroups_Get", "Token", "OpenID") // whose path has the tenant
}

// TestF30NeverRewritten: a launch whose group is there, whatever it does, is
// adopted as it is: a second request would run its container again.
func TestF30NeverRewritten(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for name, c := range map[string]struct {
		script string
		until  func(h sdk.JobHandle)
	}{
		"coming up": {"sleep 0.3", func(sdk.JobHandle) {}},
		"running":   {"sleep 0.3", func(h sdk.JobHandle) { w.Running(p, h) }},
		"ended":     {"exit 3", func(h sdk.JobHandle) { w.Ended(p, h) }},
		"stopped": {"sleep 100", func(h sdk.JobHandle) {
			if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
			w.Ended(p, h)
		}},
	} {
		key := strings.ReplaceAll(name, " ", "-")
		l := w.Plan(p, shell(w.Mark(key)+"; "+c.script))
		h := w.Run(p, l)
		c.until(h)
		before := w.Count(actionPut)
		for _, q := range []*provider{p, w.Open()} {
			res, err := q.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
			if err != nil || !res.Adopted || res.Handle.ID != h.ID {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		}
		w.Ended(p, h)
		if n := w.Count(actionPut) - before; n != 0 {
			t.Errorf("%s: the group was written %d times more", name, n)
		}
		if n := w.Marked(key); n > 1 || n < 1 && name != "stopped" {
			t.Errorf("%s: the job ran %d times", name, n)
		}
	}
}

// TestF30OneProcessSendsOnce: providers of one process that send a launch at once
// make one request.
func TestF30OneProcessSendsOnce(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	d := Driver()
	providers := []*provider{w.OpenOn(d), w.OpenOn(d)}
	l := w.Plan(providers[0], shell(w.Mark("once")))
	adopted := make([]bool, 12)
	errs := make([]error, len(adopted))
	drivertest.AtOnce(len(adopted), func(i int) {
		res, err := providers[i%2].RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
		adopted[i], errs[i] = res.Adopted, err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	first := 0
	for _, a := range adopted {
		if !a {
			first++
		}
	}
	if n := w.Count(actionPut); n != 1 || first != 1 {
		t.Errorf("%d requests, %d of them say that they made the job", n, first)
	}
	w.Ended(providers[0], providers[0].handle(groupID(l.AttemptID), time.Now()))
	if n := w.Marked("once"); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
	if n := len(providers[0].shared.sends); n != 0 {
		t.Errorf("%d sends are still remembered", n)
	}
}

// TestF30TwoProcessesAtOnce: two processes that have both seen no group make one:
// Azure refuses the second request while the group comes up.
func TestF30TwoProcessesAtOnce(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace.Pending, k.Pace.Pull = 500*time.Millisecond, 500*time.Millisecond })
	providers := []*provider{w.Open(), w.Open()}
	l := w.Plan(providers[0], shell(w.Mark("race")))
	// Both looks are answered before either request is.
	entered, release := w.cloud.Faults().Hold(actionPut)
	done := make(chan error, 2)
	handles := make([]sdk.RunJobResult, 2)
	for i, p := range providers {
		go func() {
			var err error
			handles[i], err = p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
			done <- err
		}()
	}
	<-entered
	<-entered
	release()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if handles[0].Adopted == handles[1].Adopted || handles[0].Handle.ID != handles[1].Handle.ID {
		t.Errorf("got %+v and %+v, want one that made the group and one that adopted it", handles[0], handles[1])
	}
	st := w.Ended(providers[0], handles[1].Handle)
	if n := w.Marked("race"); n != 1 || st.Launches != 1 {
		t.Errorf("the job ran %d times, %d launches are told", n, st.Launches)
	}
}

// TestF30LateRequestIsTold: a request that takes effect long after the look that
// allowed it runs the container again. Nothing can prevent that; it is told.
func TestF30LateRequestIsTold(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p, late := w.Open(), w.Open()
	l := w.Plan(p, shell(w.Mark("late")+"; sleep 0.2"))
	arrived := make(chan struct{})
	w.cloud.Faults().Add(fault.Rule{Action: actionPut, Count: 1, Effect: fault.Effect{Latency: time.Second}, Match: func([]byte) bool {
		if !isClosed(arrived) {
			close(arrived)
		}
		return true
	}})
	done := make(chan sdk.RunJobResult, 1)
	go func() {
		res, err := late.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	<-arrived
	h := w.Run(p, l)
	w.Ended(p, h)
	again := <-done
	if !again.Adopted || again.Handle.ID != h.ID || again.Handle.Metadata[keyAgain] == "" {
		t.Errorf("the late request came to %+v", again)
	}
	w.Eventually("second end", func() bool { return w.Marked("late") == 2 })
	if st := w.Ended(late, again.Handle); st.Launches < 2 {
		t.Errorf("%d launches are told, the job ran twice", st.Launches)
	}
}

// TestLastSendCounts: absence is proven by the last request's time, not by the first
// one's: that may have been long ago.
func TestLastSendCounts(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell("true"))
	long := time.Now().Add(-time.Hour)
	find := func() sdk.FindJobsResult {
		res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: long})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := find(); res.Outcome != sdk.FindAbsent {
		t.Errorf("an hour after its only request the launch is %s", res.Outcome)
	}
	w.cloud.Faults().Add(fault.Rule{Action: actionPut, Count: 1, Effect: fault.Effect{Reset: true}})
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Fatalf("a lost request: %v", err)
	}
	if res := find(); res.Outcome != sdk.FindNotVisible || time.Until(res.VisibleAt) <= 0 {
		t.Errorf("right behind another request it is %s until %s", res.Outcome, res.VisibleAt)
	}
	w.Eventually("proof", func() bool { return find().Outcome == sdk.FindAbsent })
}

// TestKindsOfCredentials: a certificate and a federated token get a token, too.
func TestKindsOfCredentials(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("federated"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_CLIENT_CERTIFICATE_PATH": certificate(t)} {
		p := w.Open(func(r *sdk.OpenRequest) {
			delete(r.Credentials, "AZURE_CLIENT_SECRET")
			r.Credentials[name] = value
		})
		if _, err := p.Check(t.Context(), sdk.CheckRequest{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificate writes a client's certificate with its key.
func certificate(t *testing.T) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	file := filepath.Join(t.TempDir(), "client.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestF16QuotaOfGroups(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	w.WaitsForRoom(p, func() func() {
		w.cloud.SetLimits(pocket.Limits{Groups: 1})
		return func() {
			if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
				t.Error(err)
			}
		}
	}, sdk.ReasonQuota, "reap")
}

func TestWaitsForRoom(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	for reason, refusal := range map[sdk.Reason]*fault.Refusal{sdk.ReasonCapacity: pocket.Capacity(pocket.Location, 1, 1.5),
		sdk.ReasonQuota: pocket.Throttled()} {
		w.WaitsForRoom(w.Open(), func() func() {
			return w.cloud.Faults().Add(fault.Rule{Action: actionPut, Effect: fault.Effect{Refuse: refusal}})
		}, reason, "")
	}
}

// TestRefusedImage: an image that Azure can't read ends the attempt; a registry
// that has an error of its own may have it once.
func TestRefusedImage(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for code, retry := range map[string]bool{"InaccessibleImage": false, "RegistryErrorResponse": true} {
		status := 400
		if retry {
			status = 409
		}
		remove := w.cloud.Faults().Add(fault.Rule{Action: actionPut, Effect: fault.Effect{Refuse: &fault.Refusal{Status: status, Code: code, Message: "words"}}})
		_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))})
		remove()
		var e *sdk.Error
		if !errors.As(err, &e) || !sdk.IsClear(err) || e.Retryable != retry || e.Reason != sdk.ReasonImagePull || !strings.Contains(e.Error(), code) {
			t.Errorf("%s: got %v", code, err)
		}
	}
}

// TestLookBeforeSendIsNoDoubt: where the look before the request fails, nothing
// was sent, and the error says so.
func TestLookBeforeSendIsNoDoubt(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell("true"))
	w.cloud.Faults().Add(fault.Rule{Action: "ContainerGroups_Get", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 503, Code: "ServerTimeout", Message: "words"}}})
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if !sdk.IsClear(err) || !sdk.IsRetryable(err) || w.Count(actionPut) != 0 {
		t.Errorf("got %v (clear: %t), %d requests", err, sdk.IsClear(err), w.Count(actionPut))
	}
}

func TestCheckNamesMissingRights(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	var names []string
	for _, r := range rights() {
		names = append(names, r.action)
	}
	w.NamesMissingRights(w.Open(), names, func(right string) func() { return w.cloud.Deny(right) })
	// Without the right to ask for rights, each is tried.
	w.cloud.Faults().Add(fault.Rule{Action: "Permissions_ListForResourceGroup", Effect: fault.Effect{Refuse: &fault.Refusal{Status: 403, Code: "AuthorizationFailed", Message: "words"}}})
	w.NamesMissingRights(w.Open(), names, func(right string) func() { return w.cloud.Deny(right) })
}

// TestCheckSaysWhatIsMissing: no resource group, no subscription, wrong secret.
func TestCheckSaysWhatIsMissing(t *testing.T) {
	w := newWorld(t, pocket.Options{Clients: map[string]pocket.Client{pocketCredentials()["AZURE_CLIENT_ID"]: {Secret: pocketCredentials()["AZURE_CLIENT_SECRET"]}}}, nil)
	check := func(name string, code sdk.Code, words string, change ...func(r *sdk.OpenRequest)) {
		t.Helper()
		_, err := w.Open(change...).Check(t.Context(), sdk.CheckRequest{})
		if sdk.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v, want %s with %q", name, err, code, words)
		}
	}
	w.Config["resource_group"] = "nosuch"
	check("resource group", sdk.NotFound, "make the resource group")
	w.Config["resource_group"] = pocket.ResourceGroup
	w.Config["subscription"] = "99999999-1111-2222-3333-444444444444"
	check("subscription", sdk.NotFound, "subscription's ID")
	w.Config["subscription"] = pocket.SubscriptionID
	check("secret", sdk.Unauthenticated, "AADSTS7000215", func(r *sdk.OpenRequest) { r.Credentials["AZURE_CLIENT_SECRET"] = "wrong" })
}
