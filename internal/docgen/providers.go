package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
)

// providers writes docs/providers.md: guarantees and capabilities of each kind,
// and what it takes.
func providers() ([]byte, error) {
	drivers := all.Drivers()
	able, err := capabilities(drivers)
	if err != nil {
		return nil, err
	}
	head := []string{""}
	for _, d := range drivers {
		head = append(head, code(d.Kind))
	}
	var caps, guarantees [][]string
	for _, row := range sdk.Capabilities() {
		cells := []string{code(row.Name) + " " + row.Doc}
		for _, d := range drivers {
			cells = append(cells, yesNo(able[d.Kind][row.Name]))
		}
		caps = append(caps, cells)
	}
	jobs := []string{""}
	for _, d := range drivers {
		if able[d.Kind][sdk.Runner().String()] {
			jobs = append(jobs, code(d.Kind))
		}
	}
	for _, g := range guaranteeRows() {
		cells := []string{g.name}
		for _, d := range drivers {
			if able[d.Kind][sdk.Runner().String()] {
				cells = append(cells, g.words(d.Guarantees))
			}
		}
		guarantees = append(guarantees, cells)
	}
	live, workloads := []string{""}, [][]string{}
	for _, d := range drivers {
		if able[d.Kind][sdk.Workloads().String()] {
			live = append(live, code(d.Kind))
		}
	}
	for _, g := range cli.WorkloadGuaranteeRows() {
		cells := []string{g.Name}
		for _, d := range drivers {
			if able[d.Kind][sdk.Workloads().String()] {
				cells = append(cells, g.Words(d.Guarantees.Workload))
			}
		}
		workloads = append(workloads, cells)
	}
	var kinds []string
	for _, d := range drivers {
		kinds = append(kinds, kindText(d, able[d.Kind][sdk.Runner().String()]))
	}
	return render("providers.md", map[string]string{
		"Capabilities": table(head, caps),
		"Guarantees":   table(jobs, guarantees),
		"Workloads":    table(live, workloads),
		"Kinds":        strings.Join(kinds, "\n"),
	})
}

// capabilities opens each driver, which reaches no network, and asks what the
// provider can do: that depends on the driver alone.
func capabilities(drivers []sdk.Driver) (map[string]map[string]bool, error) {
	out := map[string]map[string]bool{}
	for _, d := range drivers {
		names, err := openAndAsk(d)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", d.Kind, err)
		}
		if !slices.Equal(names, d.Capabilities) {
			return nil, fmt.Errorf("driver %s declares the capabilities %v, its provider has %v", d.Kind, d.Capabilities, names)
		}
		out[d.Kind] = map[string]bool{}
		for _, n := range names {
			out[d.Kind][n] = true
		}
	}
	return out, nil
}

func openAndAsk(d sdk.Driver) (names []string, err error) {
	dir, err := os.MkdirTemp("", "docgen")
	if err != nil {
		return nil, err
	}
	defer func() {
		if rerr := os.RemoveAll(dir); err == nil {
			err = rerr
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	clock := sdk.SystemClock()
	config, credentials := made(d.Kind)
	if d.Kind == "kubernetes" || d.Kind == "argo" {
		if credentials, err = aKubeconfig(dir); err != nil {
			return nil, err
		}
	}
	if d.Kind == "digitalocean" {
		var done func() error
		if config, done, err = anAccount(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	p, err := d.Open(context.Background(), sdk.OpenRequest{Name: d.Kind, Config: config, Credentials: credentials, Secrets: none{}, Clock: clock,
		IDs: sdk.NewIDSource(clock), Log: slog.New(slog.DiscardHandler), Owner: "docgen", LedgerID: "docgen", StateDir: dir,
		CallTimeout: 30 * time.Second, Executable: self})
	if err != nil {
		return nil, err
	}
	return sdk.CapabilityNames(p), p.Close()
}

// made returns a config and made-up credentials for kinds that want to know
// where they lead.
func made(kind string) (json.RawMessage, map[string]string) {
	aws := map[string]string{"AWS_ACCESS_KEY_ID": "docgen", "AWS_SECRET_ACCESS_KEY": "docgen"}
	switch kind {
	case "aws-ecs":
		return json.RawMessage(`{"region":"us-east-1","account":"123456789012"}`), aws
	case "gcp-cloudrun":
		return json.RawMessage(`{"project":"docgen-project","region":"europe-west1"}`), map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "docgen"}
	case "azure-aci":
		return json.RawMessage(`{"subscription":"00000000-0000-0000-0000-000000000000","resource_group":"docgen","location":"westeurope"}`),
			map[string]string{"AZURE_TENANT_ID": "docgen", "AZURE_CLIENT_ID": "docgen", "AZURE_CLIENT_SECRET": "docgen"}
	case "aws-batch":
		return json.RawMessage(`{"region":"us-east-1","account":"123456789012","queue":"jobs"}`), aws
	case "compose":
		return json.RawMessage(`{"project":"docgen"}`), nil
	case "digitalocean":
		return nil, map[string]string{"DIGITALOCEAN_TOKEN": "docgen"}
	}
	return json.RawMessage("{}"), nil
}

// aKubeconfig writes one into a folder. Opening a cluster's provider reaches no
// server.
func aKubeconfig(dir string) (map[string]string, error) {
	file := filepath.Join(dir, "kubeconfig")
	const text = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]}"
	return map[string]string{"KUBECONFIG": file}, os.WriteFile(file, []byte(text), 0o600)
}

// anAccount serves a pocket DigitalOcean: a provider wants to be told whose its
// token is when it opens.
func anAccount() (config json.RawMessage, done func() error, err error) {
	cloud, err := digitalocean.New(digitalocean.Options{})
	if err != nil {
		return nil, nil, err
	}
	in, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, errors.Join(err, cloud.Close())
	}
	web := &http.Server{Handler: cloud, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(in) }()
	done = func() error {
		err := web.Close()
		if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return errors.Join(err, cloud.Close())
	}
	return fmt.Appendf(nil, `{"endpoint":"http://%s"}`, in.Addr()), done, nil
}

// none resolves no secret: opening needs none.
type none struct{}

func (none) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.SecretValue{}, sdk.Errorf(sdk.Unimplemented, "resolve secret", "documents need none")
}

// guaranteeRow is one line of the matrix.
type guaranteeRow struct {
	name  string
	words func(g sdk.Guarantees) string
}

// guaranteeRows and cli.WorkloadGuaranteeRows cover every field of sdk.Guarantees,
// which a test checks.
func guaranteeRows() []guaranteeRow {
	span := func(d time.Duration) string { return config.FormatDuration(d) }
	return []guaranteeRow{
		{"at most one object per attempt, by", func(g sdk.Guarantees) string {
			if g.Submit.By == sdk.SubmitByToken {
				return "token, for " + span(g.Submit.TokenWindow)
			}
			return string(g.Submit.By)
		}},
		{"an object is surely found", func(g sdk.Guarantees) string {
			s := "at once"
			if g.Found.Within > 0 {
				s = "within " + span(g.Found.Within)
			}
			if g.Found.Consistent {
				return s + "; not found proves absence"
			}
			return s + "; not found proves nothing"
		}},
		{"arguments", func(g sdk.Guarantees) string { return underscores(string(g.Argv)) }},
		{"exit code", func(g sdk.Guarantees) string {
			if g.ExitCode == sdk.ExitCodeAbsent {
				return "absent"
			}
			return "from the " + string(g.ExitCode)
		}},
		{"output is kept as", func(g sdk.Guarantees) string {
			if g.Logs.DropsEmptyLines {
				return string(g.Logs.Fidelity) + ", without empty ones"
			}
			return string(g.Logs.Fidelity)
		}},
		{"stdout and stderr apart", func(g sdk.Guarantees) string { return yesNo(g.Logs.Apart) }},
		{"output while the job runs", func(g sdk.Guarantees) string { return yesNo(g.Logs.Live) }},
		{"end of output", func(g sdk.Guarantees) string {
			if g.Logs.EndProven {
				return "proven"
			}
			s := fmt.Sprintf("quiet for %s, at most %s", span(g.Logs.Settle.Quiet), span(g.Logs.Settle.Max))
			if g.Logs.Looks {
				s += ", by looks that found nothing"
			}
			return s
		}},
		{"a cancel is", func(g sdk.Guarantees) string {
			if g.CancelReadBack {
				return "proven"
			}
			return "accepted only"
		}},
		{"grace", func(g sdk.Guarantees) string {
			if !g.Grace.Supported {
				if g.Grace.Default > 0 {
					return "the platform's own, " + span(g.Grace.Default) + "; refused when set"
				}
				return "the platform's own; refused when set"
			}
			s := fmt.Sprintf("%s to %s, %s unset", span(g.Grace.Min), span(g.Grace.Max), span(g.Grace.Default))
			if g.Grace.AtLaunch {
				s += "; a cancel can't change it"
			}
			if g.Grace.Again {
				s += "; asked twice, killed after two of them"
			}
			return s
		}},
		{"time-out without a holder", func(g sdk.Guarantees) string {
			if !g.Deadline.Native {
				return "none: nobody ends the job while no holder lives"
			}
			s := "the backend's own"
			if g.Deadline.Min > 0 || g.Deadline.Max > 0 {
				s += fmt.Sprintf(", %s to %s", span(g.Deadline.Min), span(g.Deadline.Max))
			}
			if g.Deadline.FromSubmit {
				s += ", counted from the submission"
			}
			return s
		}},
		{"an ended job is remembered", func(g sdk.Guarantees) string {
			s := "until clean-up"
			if g.Evidence > 0 {
				s = "for " + span(g.Evidence)
			}
			if g.KeepsEnded {
				s += "; clean-up can't remove it"
			}
			return s
		}},
		{"secrets arrive as", func(g sdk.Guarantees) string {
			if g.Secrets == "" {
				return "refused"
			}
			return underscores(string(g.Secrets))
		}},
		{"inherits the submitter's folder and environment", func(g sdk.Guarantees) string { return yesNo(g.Ambient) }},
		{"runs images", func(g sdk.Guarantees) string { return yesNo(!g.NoImage) }},
		{"standard input", func(g sdk.Guarantees) string {
			if len(g.Stdin) == 0 {
				return "none"
			}
			out := make([]string, len(g.Stdin))
			for i, m := range g.Stdin {
				out[i] = string(m)
			}
			return strings.Join(out, ", ")
		}},
	}
}

func underscores(s string) string { return strings.ReplaceAll(s, "_", " ") }

// kindText is the part about one kind.
func kindText(d sdk.Driver, jobs bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", code(d.Kind), d.Doc)
	b.WriteString("Its own settings, under `config:` of a provider:\n\n" + schemaTable(d.Config))
	if jobs {
		jobText(&b, d)
	}
	for _, t := range d.Resources {
		b.WriteString(resourceText(t))
	}
	return b.String()
}

// jobText describes what a job may say.
func jobText(b *strings.Builder, d sdk.Driver) {
	b.WriteString("\nOptions of a job:\n\n" + schemaTable(d.Options))
	b.WriteString("\nFields of a job:\n\n")
	var rows [][]string
	for _, s := range d.Support {
		what := s.Values
		if s.Refused != "" {
			if what = "refused: " + s.Refused; s.Values != "" {
				what = s.Values + "; else refused: " + s.Refused
			}
		}
		rows = append(rows, []string{code(s.Field), what})
	}
	if len(rows) == 0 {
		b.WriteString("Not described.\n")
	} else {
		b.WriteString(table([]string{"Field", "What is honoured"}, rows))
	}
}

// resourceText describes a type of resources.
func resourceText(t sdk.ResourceType) string {
	verbs := make([]string, len(t.Verbs))
	for i, v := range t.Verbs {
		verbs[i] = string(v)
	}
	out := fmt.Sprintf("\nResource %s: %s It can do: %s.", code(t.Type), t.Doc, strings.Join(verbs, ", "))
	if t.Refused != "" {
		out += " Nothing else: " + t.Refused + "."
	}
	if len(t.Config.Fields) == 0 {
		return out + " It has no config.\n"
	}
	return out + "\n\n" + schemaTable(t.Config)
}

func schemaTable(s sdk.Schema) string {
	var rows [][]string
	add(&rows, "", s.Fields)
	if len(rows) == 0 {
		return "None.\n"
	}
	return table([]string{"Key", "Type", "Default", "Meaning"}, rows)
}

func add(rows *[][]string, prefix string, fields []sdk.SchemaField) {
	for _, f := range fields {
		name := prefix + f.Name
		typ := string(f.Type)
		if f.Elem != nil {
			typ += " of " + string(f.Elem.Type)
		}
		doc := f.Doc
		if len(f.Enum) > 0 {
			doc += " One of " + codes(f.Enum) + "."
		}
		if f.Max > 0 {
			doc += fmt.Sprintf(" From %d to %d.", f.Min, f.Max)
		}
		if f.Required {
			doc += " Required."
		}
		if f.Sensitive {
			doc += " Redacted wherever it is shown."
		}
		def := f.Default
		if !strings.Contains(def, " ") {
			def = code(def)
		}
		*rows = append(*rows, []string{code(name), typ, def, strings.TrimSpace(doc)})
		switch {
		case f.Type == sdk.TypeObject:
			add(rows, name+".", f.Fields)
		case f.Elem != nil && f.Elem.Type == sdk.TypeObject:
			add(rows, name+"[].", f.Elem.Fields)
		}
	}
}
