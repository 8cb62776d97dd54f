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
// decides, and what is wrong and told of already, gets a placeholder that is legal,
// so that all else can be checked before any step starts.
type decoder struct {
	*reader
	step *Step
	// text returns a scalar's text, and whether it is known: a template's isn't
	// while drafting. ok is false for one that failed, whose problem is told
	// already.
	text func(n *yamltree.Node, key string) (text string, known, ok bool)
	// later are the keys, within the config, of what isn't known yet.
	later []string
}

// unknown notes that what stands at a key isn't known yet.
func (d *decoder) unknown(key string) {
	d.later = append(d.later, strings.TrimPrefix(key, d.step.key()+"."))
}

// Placeholders.
const (
	draftText   = "template"
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
			e.Image = d.draft(f.Value, k, draftText)
		case "work_dir":
			e.WorkDir = d.draft(f.Value, k, draftPath)
		case "network":
			e.Network = d.draft(f.Value, k, draftText)
		case "command":
			if e.Command = d.list(f, k); len(e.Command) == 0 {
				d.bad(keyAt(*f), k, "is empty; leave it out for the image's own")
				d.unknown(k)
				e.Command = sdk.Argv{draftText}
			}
		case "image_entrypoint":
			e.ImageEntrypoint = d.list(f, k)
		case "env":
			e.Env = d.mapping(f, k, "")
		case "secrets":
			for name, text := range d.mapping(f, k, draftSecret) {
				if e.Secrets == nil {
					e.Secrets = map[string]sdk.SecretRef{}
				}
				e.Secrets[name] = sdk.SecretRef(text)
			}
		case "allow_visible_secret":
			e.AllowVisibleSecret = d.boolean(f, key)
		case "memory_limit":
			e.Memory = number(d, f, k, config.ParseMemoryQuantity, 1)
		case "cpu_limit":
			e.CPU = number(d, f, k, config.ParseCPU, 1)
		case "timeout":
			e.Timeout = number(d, f, k, duration, time.Second)
		case "start_timeout":
			e.StartTimeout = number(d, f, k, duration, time.Second)
		case "ttl":
			e.TTL = number(d, f, k, duration, time.Second)
		case "security_profile":
			text, ok := d.fixed(f, key, find(entries(), f.Key))
			if e.Profile = sdk.Profile(text); !ok {
				d.unknown(k)
			}
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
		d.bad(at(n), key, "is empty; %s", valueless(d.needs(key)))
		return "", false, false
	}
	return s, known, ok
}

// needs reports whether a key can't be left out.
func (d *decoder) needs(key string) bool {
	return strings.HasSuffix(key, ".image") || strings.HasSuffix(key, ".source") || strings.HasSuffix(key, ".target")
}

// draft is a text's value, or a placeholder for one that isn't known.
func (d *decoder) draft(n *yamltree.Node, key, placeholder string) string {
	if s, known, ok := d.string(n, key); known && ok {
		return s
	}
	d.unknown(key)
	return placeholder
}

// list reads words, any of which may be empty.
func (d *decoder) list(f *yamltree.Field, key string) sdk.Argv {
	if f.Value.Kind != yamltree.List {
		d.bad(keyAt(*f), key, "wants a list of words, has %s", f.Value.Kind)
		d.unknown(key)
		return sdk.Argv{draftText}
	}
	out := sdk.Argv{}
	for i, item := range f.Value.Items {
		k := fmt.Sprintf("%s[%d]", key, i)
		if item.Kind != yamltree.Text {
			d.bad(at(item), k, "wants text, has %s%s", item.Kind, quoted(item))
			d.unknown(k)
			out = append(out, draftText)
			continue
		}
		text, known, ok := d.text(item, k)
		if !known || !ok {
			d.unknown(k)
		}
		out = append(out, text)
	}
	return out
}

// mapping reads texts by name; nil when there are none. A template stays as it is
// where there is no placeholder.
func (d *decoder) mapping(f *yamltree.Field, key, placeholder string) map[string]string {
	if f.Value.Kind != yamltree.Map {
		d.bad(keyAt(*f), key, "wants a mapping of names to texts, has %s", f.Value.Kind)
		d.unknown(key)
		return map[string]string{"TEMPLATE": placeholder}
	}
	var out map[string]string
	for _, x := range f.Value.Fields {
		k := join(key, x.Key)
		text, settled := placeholder, false
		if x.Value.Kind != yamltree.Text {
			d.bad(keyAt(x), k, "wants text, has %s%s", x.Value.Kind, quoted(x.Value))
		} else if s, known, ok := d.text(x.Value, k); ok && (known || placeholder == "") {
			text, settled = s, known
		}
		if !settled {
			d.unknown(k)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[x.Key] = text
	}
	return out
}

// each reads a list of mappings. One that is none has a placeholder.
func (d *decoder) each(f *yamltree.Field, key string, es []entry, read func(n *yamltree.Node, key string)) {
	if f.Value.Kind != yamltree.List {
		d.bad(keyAt(*f), key, "wants a list, has %s", f.Value.Kind)
		d.unknown(key)
		read(&yamltree.Node{Kind: yamltree.Map}, key)
		return
	}
	for i, item := range f.Value.Items {
		k := fmt.Sprintf("%s[%d]", key, i)
		if item.Kind != yamltree.Map {
			d.bad(at(item), k, "wants a mapping with %s, has %s", strings.Join(names(es), ", "), item.Kind)
			d.unknown(k)
			read(&yamltree.Node{Kind: yamltree.Map}, k)
			continue
		}
		read(d.known(item, k, es), k)
	}
}

func (d *decoder) mount(n *yamltree.Node, key string) sdk.Mount {
	var m sdk.Mount
	source, known := "", false
	if f := n.Get("source"); f != nil {
		var ok bool
		source, known, ok = d.string(f.Value, key+".source")
		known = known && ok
	}
	text, set := d.fixed(n.Get("type"), key, find(mountEntries(), "type"))
	switch {
	case n.Get("type") != nil && !set, !set && !known:
		d.unknown(key) // whether it is a folder or a volume
	case !known:
		d.unknown(key + ".source")
	}
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
		source = draftText
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
		m.Size = number(d, f, key+".size", config.ParseMemoryQuantity, 1)
	}
	return m
}

// target reads where something is mounted. Each placeholder is another path:
// two places that are the same are refused.
func (d *decoder) target(n *yamltree.Node, key string) string {
	placeholder := draftPath + "/" + strings.NewReplacer("[", "/", "]", "").Replace(key)
	if f := n.Get("target"); f != nil {
		return d.draft(f.Value, key+".target", placeholder)
	}
	d.unknown(key + ".target")
	return placeholder
}

// number reads a quantity, which is more than zero. For one that isn't
// known another stands in.
func number[T ~int64](d *decoder, f *yamltree.Field, key string, parse func(string) (T, error), standIn T) T {
	switch f.Value.Kind {
	case yamltree.Text, yamltree.Int, yamltree.Float:
	default:
		d.bad(keyAt(*f), key, "wants a quantity, has %s%s", f.Value.Kind, quoted(f.Value))
		d.unknown(key)
		return standIn
	}
	text, known, ok := d.text(f.Value, key)
	if !known || !ok {
		d.unknown(key)
		return standIn
	}
	v, err := parse(text)
	if err != nil {
		var e *sdk.Error
		message, remedy := err.Error(), ""
		if errors.As(err, &e) {
			message, remedy = e.Err.Error(), e.Remedy
		}
		d.add(at(f.Value), key, ErrFile, message, remedy)
		d.unknown(key)
		return standIn
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
