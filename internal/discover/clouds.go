package discover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/config"
)

// aws looks for credentials in variables, and for the profile in use.
// https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html
func (l *look) aws() {
	profiles := map[string]string{} // region by name
	note := func(path, prefix string) {
		for _, s := range l.ini(path) {
			name := s.name
			if prefix != "" && name != "default" {
				var ok bool
				if name, ok = strings.CutPrefix(name, prefix); !ok {
					continue // an SSO session, or services
				}
				name = strings.TrimSpace(name)
			}
			profiles[name] = cmp.Or(s.values["region"], profiles[name])
		}
	}
	settings := l.under("", ".aws", "config")
	if v := l.Env.Get("AWS_CONFIG_FILE"); v != "" {
		settings = v
	}
	keys := l.under("", ".aws", "credentials")
	if v := l.Env.Get("AWS_SHARED_CREDENTIALS_FILE"); v != "" {
		keys = v
	}
	note(settings, "profile ")
	note(keys, "")
	names := slices.Sorted(maps.Keys(profiles))
	region := l.first("AWS_REGION", "AWS_DEFAULT_REGION")
	ecs := Found{Name: "ecs", Kind: "aws-ecs", Credentials: config.CredentialsAmbient}
	switch profile := cmp.Or(l.Env.Get("AWS_PROFILE"), "default"); {
	case l.has("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
		ecs.From, ecs.Credentials = "AWS's variables with keys", config.CredentialsEnv
	case l.has("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"):
		ecs.From, ecs.Credentials = "AWS's variables of a web identity", config.CredentialsEnv
	case slices.Contains(names, profile):
		ecs.From = "AWS's profile " + profile
		region = cmp.Or(region, profiles[profile])
		if profile != "default" {
			ecs.Notes = append(ecs.Notes, "AWS_PROFILE chooses the profile, also for later calls.")
		}
	case len(names) > 0:
		ecs.From = "AWS's profiles"
		if len(names) > maxEach {
			names = names[:maxEach]
		}
		ecs.Notes = append(ecs.Notes, "AWS_PROFILE chooses one: "+strings.Join(names, ", ")+".")
	default:
		return
	}
	batch := ecs
	batch.Name, batch.Kind = "batch", "aws-batch"
	at := orGuess("region", region, "eu-west-1")
	ecs.Config = []Setting{at, {Name: "cluster", Value: "default", Guess: true}, {Name: "subnets", Value: []string{"subnet-0123456789abcdef0"}, Guess: true},
		{Name: "execution_role", Value: "ecsTaskExecutionRole", Guess: true}}
	batch.Config = []Setting{at, {Name: "queue", Value: "my-queue", Guess: true}, {Name: "execution_role", Value: "arn:aws:iam::123456789012:role/ecsTaskExecutionRole", Guess: true}}
	l.add(ecs)
	l.add(batch)
}

// gcloud looks for credentials of Google's, and for what gcloud's active configuration
// says of a project and a region.
// https://cloud.google.com/sdk/docs/configurations
func (l *look) gcloud() {
	dir := l.under("CLOUDSDK_CONFIG", ".config", "gcloud")
	if v := l.Env.Get("APPDATA"); v != "" && !l.has("CLOUDSDK_CONFIG") {
		dir = filepath.Join(v, "gcloud")
	}
	var settings []section
	active := "default"
	if dir != "" {
		if data, ok := l.read(filepath.Join(dir, "active_config")); ok {
			active = cmp.Or(strings.TrimSpace(string(data)), active)
		}
		if filepath.Base(active) == active { // a name, not a way out of the folder
			settings = l.ini(filepath.Join(dir, "configurations", "config_"+active))
		}
	}
	f := Found{Name: "cloudrun", Kind: "gcp-cloudrun", Credentials: config.CredentialsEnv}
	switch login := filepath.Join(dir, "application_default_credentials.json"); {
	case l.has("GOOGLE_APPLICATION_CREDENTIALS"):
		f.From = "the file of GOOGLE_APPLICATION_CREDENTIALS"
	case l.has("GOOGLE_OAUTH_ACCESS_TOKEN"), l.has("CLOUDSDK_AUTH_ACCESS_TOKEN"):
		f.From = "Google's variable with a token"
	case dir != "" && exists(login):
		f.From, f.Credentials = "gcloud's application default login", config.CredentialsAmbient
	case len(settings) > 0:
		f.From, f.Credentials = "gcloud's configuration "+active, config.CredentialsAmbient
		f.Notes = append(f.Notes, "It needs a login besides: gcloud auth application-default login.")
	default:
		return
	}
	project := cmp.Or(l.Env.Get("GOOGLE_CLOUD_PROJECT"), valueOf(settings, "core", "project"))
	region := cmp.Or(l.Env.Get("GOOGLE_CLOUD_REGION"), valueOf(settings, "run", "region"), valueOf(settings, "compute", "region"))
	f.Config = []Setting{orGuess("project", project, "my-project"), orGuess("region", region, "europe-west1")}
	l.add(f)
}

// exists reports whether a plain file is there.
func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// azure looks for credentials in variables, and for az's default subscription.
// https://learn.microsoft.com/en-us/cli/azure/azure-cli-configuration
func (l *look) azure() {
	f := Found{Name: "aci", Kind: "azure-aci", Credentials: config.CredentialsEnv}
	dir := l.under("AZURE_CONFIG_DIR", ".azure")
	subscription, cloud, login := l.Env.Get("AZURE_SUBSCRIPTION_ID"), "", false
	var settings []section
	if dir != "" {
		settings = l.ini(filepath.Join(dir, "config"))
		path := filepath.Join(dir, "azureProfile.json")
		if data, ok := l.read(path); ok {
			var p struct {
				Subscriptions []struct {
					ID          string `json:"id"`
					Default     bool   `json:"isDefault"`
					Environment string `json:"environmentName"`
				} `json:"subscriptions"`
			}
			if json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &p) != nil { // az writes the mark
				l.trouble(path, errNoJSON)
			}
			for _, s := range p.Subscriptions {
				login = true
				if s.Default {
					subscription = cmp.Or(subscription, s.ID)
					cloud = map[string]string{"AzureChinaCloud": "china", "AzureUSGovernment": "government"}[s.Environment]
				}
			}
		}
	}
	switch {
	case l.has("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"), l.has("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_CERTIFICATE_PATH"),
		l.has("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
		f.From, cloud = "Azure's variables of a service principal", ""
	case login:
		f.From, f.Credentials = "az's login", config.CredentialsAmbient
	default:
		return
	}
	f.Config = slices.Concat([]Setting{orGuess("subscription", subscription, "00000000-0000-0000-0000-000000000000"),
		orGuess("resource_group", valueOf(settings, "defaults", "group"), "my-group"), orGuess("location", valueOf(settings, "defaults", "location"), "westeurope")}, text("cloud", cloud))
	l.add(f)
}

// digitalocean looks for a token in variables or in doctl's settings.
// https://docs.digitalocean.com/reference/doctl/how-to/install/
func (l *look) digitalocean() {
	f := Found{Name: "digitalocean", Kind: "digitalocean", Credentials: config.CredentialsEnv, From: "DigitalOcean's variable with a token"}
	if l.first("DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN") == "" {
		var files []string
		for _, dir := range []string{l.Env.Get("XDG_CONFIG_HOME"), l.Env.Get("APPDATA"), l.under("", ".config"), l.under("", "Library", "Application Support")} {
			if dir != "" {
				files = append(files, filepath.Join(dir, "doctl", "config.yaml"))
			}
		}
		i := slices.IndexFunc(files, exists)
		if i < 0 {
			return
		}
		data, ok := l.read(files[i])
		if !ok {
			return
		}
		var c struct {
			Token    string            `yaml:"access-token"`
			Context  string            `yaml:"context"`
			Contexts map[string]string `yaml:"auth-contexts"`
		}
		if yaml.Unmarshal(data, &c) != nil {
			l.trouble(files[i], errNoYAML)
			return
		}
		use := cmp.Or(l.Env.Get("DIGITALOCEAN_CONTEXT"), c.Context, "default")
		if use == "default" && c.Token == "" || use != "default" && c.Contexts[use] == "" {
			return
		}
		f.From, f.Credentials = "doctl's context "+use, config.CredentialsAmbient
	}
	l.add(f)
}
