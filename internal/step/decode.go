package step

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// decoder turns a step's config into an execution. With drafts, what a template
// decides gets a placeholder that is legal, so that all else can be checked
// before any step starts.
type decoder struct {
	*reader
	step *Step
	// text returns a scalar's text, and whether it is known: a template's isn't
	// while drafting. ok is false for one that failed, whose problem is told
	// already.
	text func(n *yamltree.Node, key string) (text string, known, ok bool)
}

// Placeholders for what a template decides.
const (
	draftSecret = "secret://env/TEMPLATE"
	draftPath   = "/template"
)

func (d *decoder) exec(n *yamltree.Node, key string) sandbox.Exec {
	e := sandbox.Exec{Name: d.step.Name}
	for i := range n.Fields {
		f := &n.Fields[i]
		k := join(key, f.Key)
		switch f.Key {
		case "image":
			e.Image, _, _ = d.string(f.Value, k)
		case "work_dir":
			if s, known, ok := d.string(f.Value, k); ok {
				if e.WorkDir = s; !known {
					e.WorkDir = draftPath
				}
			}
		case "network":
			e.Network, _, _ = d.string(f.Value, k)
		case "command":
			e.Command = d.list(f, k)
			if e.Command != nil && len(e.Command) == 0 {
				d.bad(keyAt(*f), k, "is empty; leave it out for the image's own")
			}
		case "image_entrypoint":
			e.ImageEntrypoint = d.list(f, k)
		case "env":
			d.mapping(f, k, func(name, text string, _ bool) {
				if e.Env == nil {
					e.Env = sdk.Env{}
				}
				e.Env[name] = text
			})
		case "secrets":
			d.mapping(f, k, func(name, text string, known bool) {
				if e.Secrets == nil {
					e.Secrets = map[string]sdk.SecretRef{}
				}
				if !known {
					text = draftSecret
				}
				e.Secrets[name] = sdk.SecretRef(text)
			})
		case "allow_visible_secret":
			e.AllowVisibleSecret = d.boolean(f, key)
		case "memory_limit":
			e.Memory = number(d, f, k, config.ParseMemoryQuantity)
		case "cpu_limit":
			e.CPU = number(d, f, k, config.ParseCPU)
		case "timeout":
			e.Timeout = number(d, f, k, duration)
		case "ttl":
			e.TTL = number(d, f, k, duration)
		case "security_profile":
			text, _ := d.fixed(f, key, find(entries(), f.Key))
			e.Profile = sdk.Profile(text)
		case "mounts":
			d.each(f, k, mountEntries(), func(m *yamltree.Node, k string) { e.Mounts = append(e.Mounts, d.mount(m, k)) })
		case "tmpfs":
			d.each(f, k, tmpfsEntries(), func(m *yamltree.Node, k string) { e.Tmpfs = append(e.Tmpfs, d.tmpfs(m, k)) })
		}
	}
	return e
}

// string reads a text, which isn't empty.
func (d *decoder) string(n *yamltree.Node, key string) (s string, known, ok bool) {
	if n.Kind != yamltree.Text {
		d.bad(at(n), key, "wants text, has %s%s", n.Kind, quoted(n))
		return "", false, false
	}
	s, known, ok = d.text(n, key)
	if ok && s == "" {
		d.bad(at(n), key, "is empty; leave it out")
		return "", false, false
	}
	return s, known, ok
}

// list reads words, any of which may be empty; nil where it is no list.
func (d *decoder) list(f *yamltree.Field, key string) sdk.Argv {
	if f.Value.Kind != yamltree.List {
		d.bad(keyAt(*f), key, "wants a list of words, has %s", f.Value.Kind)
		return nil
	}
	out := sdk.Argv{}
	for i, item := range f.Value.Items {
		k := fmt.Sprintf("%s[%d]", key, i)
		if item.Kind != yamltree.Text {
			d.bad(at(item), k, "wants text, has %s%s", item.Kind, quoted(item))
			continue
		}
		text, _, _ := d.text(item, k)
		out = append(out, text)
	}
	return out
}

func (d *decoder) mapping(f *yamltree.Field, key string, put func(name, text string, known bool)) {
	if f.Value.Kind != yamltree.Map {
		d.bad(keyAt(*f), key, "wants a mapping of names to texts, has %s", f.Value.Kind)
		return
	}
	for _, x := range f.Value.Fields {
		k := join(key, x.Key)
		if x.Value.Kind != yamltree.Text {
			d.bad(keyAt(x), k, "wants text, has %s%s", x.Value.Kind, quoted(x.Value))
			continue
		}
		if text, known, ok := d.text(x.Value, k); ok {
			put(x.Key, text, known)
		}
	}
}

// each reads a list of mappings.
func (d *decoder) each(f *yamltree.Field, key string, es []entry, read func(n *yamltree.Node, key string)) {
	if f.Value.Kind != yamltree.List {
		d.bad(keyAt(*f), key, "wants a list, has %s", f.Value.Kind)
		return
	}
	for i, item := range f.Value.Items {
		k := fmt.Sprintf("%s[%d]", key, i)
		if item.Kind != yamltree.Map {
			d.bad(at(item), k, "wants a mapping with %s, has %s", strings.Join(names(es), ", "), item.Kind)
			continue
		}
		before := len(d.problems)
		d.known(item, k, es)
		if len(d.problems) == before {
			read(item, k)
		}
	}
}

func (d *decoder) mount(n *yamltree.Node, key string) sdk.Mount {
	var m sdk.Mount
	source, known, ok := d.string(n.Get("source").Value, key+".source")
	if !ok {
		source = draftPath
	}
	text, set := d.fixed(n.Get("type"), key, find(mountEntries(), "type"))
	switch {
	case set:
		m.Type = sdk.MountType(text)
	case known && !strings.ContainsAny(source, `/\`) && source != "." && source != "..":
		m.Type = sdk.MountVolume
	default:
		m.Type = sdk.MountBind
	}
	switch {
	case !known && m.Type == sdk.MountVolume:
		source = "template"
	case !known:
		source = draftPath
	case m.Type == sdk.MountBind && !filepath.IsAbs(source):
		source = filepath.Join(d.file.Dir, source)
	}
	m.Source, m.Target = source, d.target(n, key)
	if f := n.Get("read_only"); f != nil {
		m.ReadOnly = d.boolean(f, key)
	}
	return m
}

func (d *decoder) tmpfs(n *yamltree.Node, key string) sdk.Mount {
	m := sdk.Mount{Type: sdk.MountTmpfs, Target: d.target(n, key)}
	if f := n.Get("size"); f != nil {
		m.Size = number(d, f, key+".size", config.ParseMemoryQuantity)
	}
	return m
}

// target reads where something is mounted. Each placeholder is another path:
// two places that are the same are refused.
func (d *decoder) target(n *yamltree.Node, key string) string {
	text, known, ok := d.string(n.Get("target").Value, key+".target")
	if !known || !ok {
		return draftPath + "/" + strings.NewReplacer("[", "/", "]", "").Replace(key)
	}
	return text
}

// number reads a quantity, which is more than zero. One that isn't known yet is 1.
func number[T ~int64](d *decoder, f *yamltree.Field, key string, parse func(string) (T, error)) T {
	switch f.Value.Kind {
	case yamltree.Text, yamltree.Int, yamltree.Float:
	default:
		d.bad(keyAt(*f), key, "wants a quantity, has %s%s", f.Value.Kind, quoted(f.Value))
		return 0
	}
	text, known, ok := d.text(f.Value, key)
	if !ok {
		return 0
	}
	if !known {
		return 1
	}
	v, err := parse(text)
	if err != nil {
		var e *sdk.Error
		message, remedy := err.Error(), ""
		if errors.As(err, &e) {
			message, remedy = e.Err.Error(), e.Remedy
		}
		d.add(at(f.Value), key, ErrFile, message, remedy)
		return 0
	}
	return v
}

func duration(s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil && d == 0 {
		err = &sdk.Error{Code: sdk.InvalidArgument, Err: fmt.Errorf("%q is zero", s), Remedy: "leave it out to set none"}
	}
	return d, err
}
