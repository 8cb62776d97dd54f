package discover

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/config"
)

// kubeContext is a context of a kubeconfig, and the file that it stands in.
type kubeContext struct {
	name, namespace, file string
}

// kube looks for the contexts of the kubeconfigs that kubectl would read, and for the
// cluster that this program runs in.
// https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
func (l *look) kube() {
	files, credentials := []string{l.under("", ".kube", "config")}, config.CredentialsAmbient
	if named := l.Env.Get("KUBECONFIG"); named != "" {
		files, credentials = filepath.SplitList(named), config.CredentialsEnv
	}
	var all []kubeContext
	current := ""
	for _, file := range files {
		data, ok := l.read(file)
		if !ok {
			continue
		}
		var c struct {
			Current  string `yaml:"current-context"`
			Contexts []struct {
				Name    string `yaml:"name"`
				Context struct {
					Namespace string `yaml:"namespace"`
				} `yaml:"context"`
			} `yaml:"contexts"`
		}
		if yaml.Unmarshal(data, &c) != nil {
			l.trouble(file, errNoYAML)
			continue
		}
		if current == "" {
			current = c.Current
		}
		for _, x := range c.Contexts {
			// Of two of a name kubectl takes the first.
			if x.Name != "" && !slices.ContainsFunc(all, func(k kubeContext) bool { return k.name == x.Name }) {
				all = append(all, kubeContext{x.Name, x.Context.Namespace, file})
			}
		}
	}
	slices.SortFunc(all, func(a, b kubeContext) int { return currentFirst(a.name, b.name, current) })
	for i, k := range all {
		if i == maxEach {
			break
		}
		// Names of EKS are ARNs, whose end is what people call the cluster.
		name := k.name
		if strings.HasPrefix(name, "arn:") {
			name = name[strings.LastIndexByte(name, '/')+1:]
		}
		f := Found{Name: name, Kind: "kubernetes", From: "the context " + k.name + " of " + l.short(k.file), Credentials: credentials,
			Config: slices.Concat(text("context", k.name), text("namespace", k.namespace))}
		if i == 0 {
			f.Notes = []string{"With kind: argo the same settings lead to its Argo Workflows."}
		}
		if k.name == current {
			f.From += ", the current one"
		}
		l.add(f)
	}
	if l.has("KUBERNETES_SERVICE_HOST") && len(all) == 0 {
		l.add(Found{Name: "cluster", Kind: "kubernetes", From: "the cluster that this runs in, by the pod's service account", Credentials: config.CredentialsAmbient})
	}
}
