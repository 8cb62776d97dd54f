//go:build linux

package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
)

// dumbClouds are the kinds of clouds, with what each needs to be configured beside
// an address, and whether its launch is one call, so that one without an answer is
// in doubt; the others' comes after a look or a definition.
var dumbClouds = []struct {
	kind, config string
	inDoubt      bool
}{
	{"aws-ecs", `region: eu-central-1, account: "123456789012", subnets: [subnet-0123456789abcdef0], execution_role: "arn:aws:iam::123456789012:role/execution"`, false},
	{"aws-batch", `region: eu-central-1, account: "123456789012", queue: default, execution_role: "arn:aws:iam::123456789012:role/execution"`, false},
	{"gcp-cloudrun", `project: pocket-project, region: europe-west1`, true},
	{"azure-aci", `subscription: 00000000-0000-0000-0000-000000000000, resource_group: group, location: westeurope`, false},
	{"digitalocean", ``, true},
}

// onDumb is the program with one provider of a kind, called cloud, at an address.
func onDumb(t *testing.T, kind, config, address string) *program {
	t.Helper()
	p := newProgram(t, "off")
	if config != "" {
		config = ", " + config
	}
	text := fmt.Sprintf("providers:\n  cloud:\n    kind: %s\n    credentials: pocket\n    poll_interval: 100ms\n    call_timeout: 6s\n    config: {endpoint: %q%s}\n", kind, address, config)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// dumb is a cloud that leaves every call to a handler, but for the one that tells
// DigitalOcean's team, which comes before all else.
func dumb(t *testing.T, kind string, answer http.HandlerFunc) (address, config string) {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/account" {
			_, _ = io.WriteString(w, `{"account":{"uuid":"team-1"}}`)
			return
		}
		answer(w, r)
	})
	web := httptest.NewUnstartedServer(h)
	t.Cleanup(web.Close)
	if kind != "azure-aci" {
		web.Config.Protocols = new(http.Protocols)
		web.Config.Protocols.SetHTTP1(true)
		web.Config.Protocols.SetUnencryptedHTTP2(true)
		web.Start()
		return web.URL, ""
	}
	web.StartTLS()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return web.URL, ", ca_file: " + file
}

// TestDeadEndpoint: where nobody listens a run fails at once, and the error names
// the address and what to do. Nothing stays open.
func TestDeadEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range dumbClouds {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			scheme := "http"
			if c.kind == "azure-aci" {
				scheme = "https"
			}
			// Port 1 has no service on any machine of ours; it can't be given away
			// meanwhile, as a free one could.
			p := onDumb(t, c.kind, c.config, scheme+"://127.0.0.1:1")
			cmd := p.command("run", "--on", "cloud", "--image", "busybox:local", "--image-entrypoint", "", "--", "true")
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 125 {
				t.Errorf("exit %d (%v): %s", code, err, out)
			}
			for _, want := range []string{"127.0.0.1:1", "connection refused", "running? `windlass"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is missing: %s", want, out)
				}
			}
			if out, code := p.do("ps"); code != 0 || strings.Contains(out, "cloud") {
				t.Errorf("still open (exit %d): %s", code, out)
			}
		})
	}
}

// TestMuteCloud: a cloud that takes calls and doesn't answer them is told of, the
// start time-out ends what was surely not sent, and what is in doubt can be left.
func TestMuteCloud(t *testing.T) {
	t.Parallel()
	for how, answer := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"503": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusServiceUnavailable) },
	} {
		for _, c := range dumbClouds {
			t.Run(how+"/"+c.kind, func(t *testing.T) {
				t.Parallel()
				address, more := dumb(t, c.kind, answer)
				p := onDumb(t, c.kind, c.config+more, address)
				cmd := p.command("run", "--on", "cloud", "--name", "mute", "--start-timeout", "2s", "--image", "busybox:local", "--image-entrypoint", "", "--", "true")
				var errs lockedBuffer
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				said := func(what string) {
					t.Helper()
					testwait.Until(t, soon, what, func() bool { return strings.Contains(errs.String(), what) })
				}
				if !c.inDoubt {
					_ = cmd.Wait()
					if code := cmd.ProcessState.ExitCode(); code != 125 || strings.Contains(errs.String(), "SIG") {
						t.Errorf("exit %d: %s", code, errs.String())
					}
					if out, _ := p.do("status", "--json", "mute"); !strings.Contains(out, `"state": "failed"`) {
						t.Errorf("not failed on record: %s", out)
					}
					return
				}
				said("cloud gives no answer")
				said("the start time-out has passed")
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				said("which can't come before cloud answers; once more leaves at once")
				// Signals that come close together are one wish.
				testwait.Until(t, soon, "the program to have left", func() bool {
					_ = cmd.Process.Signal(syscall.SIGTERM)
					return strings.Contains(errs.String(), "windlass status")
				})
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != 130 {
					t.Errorf("exit %d: %s", code, errs.String())
				}
				if out, _ := p.do("status", "mute"); !strings.Contains(out, "no answer since") || !strings.Contains(out, "asked for by tester@here") {
					t.Errorf("the status doesn't say why: %s", out)
				}
			})
		}
	}
}
