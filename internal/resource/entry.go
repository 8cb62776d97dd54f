package resource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// entryKeys are the keys of an entry.
func entryKeys() []string {
	return []string{"name", "type", "provider", "config", "size", "hints", "depends_on"}
}

func (r *reader) root(n *yamltree.Node) {
	if n.Kind != yamltree.Map {
		r.bad(n.Line, n.Column, "", "a file of resources is a mapping with resources:, this is %s", n.Kind)
		return
	}
	n = r.known(n, "", []string{"resources"})
	list := n.Get("resources")
	switch {
	case list == nil:
		r.bad(n.Line, n.Column, "", "has no resources")
	case list.Value.Kind != yamltree.List:
		r.bad(list.Line, list.Column, "resources", "wants a list, has %s", list.Value.Kind)
	case len(list.Value.Items) == 0:
		r.bad(list.Line, list.Column, "resources", "is empty")
	default:
		for _, item := range list.Value.Items {
			if f := item.Get("name"); f != nil && f.Value.Kind == yamltree.Text {
				r.names = append(r.names, f.Value.Text)
			}
		}
		for i, item := range list.Value.Items {
			r.entry(fmt.Sprintf("resources[%d]", i), item)
		}
	}
}

// known refuses other keys, and returns the mapping with each mistyped one under the
// name that was meant, so that what stands there is checked in the same round.
func (r *reader) known(n *yamltree.Node, key string, have []string) *yamltree.Node {
	mended := *n
	mended.Fields = slices.Clone(n.Fields)
	for i, f := range n.Fields {
		if slices.Contains(have, f.Key) {
			continue
		}
		r.bad(f.Line, f.Column, join(key, f.Key), "is not known%s; here may stand %s", meant(f.Key, have), strings.Join(have, ", "))
		if near := sdk.Nearest(f.Key, have); near != "" && mended.Get(near) == nil {
			mended.Fields[i].Key = near
		}
	}
	return &mended
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func (r *reader) entry(key string, n *yamltree.Node) {
	if n.Kind != yamltree.Map {
		r.bad(n.Line, n.Column, key, "a resource is a mapping with name, type, provider and config, this is %s", n.Kind)
		return
	}
	n = r.known(n, key, entryKeys())
	e := Entry{key: key, places: map[string]config.Origin{"": r.at(n.Line, n.Column)}, odd: map[string]bool{}}
	for _, f := range n.Fields {
		e.places[f.Key] = r.at(f.Line, f.Column)
		if f.Value.Kind == yamltree.Text {
			e.places[f.Key] = r.at(f.Value.Line, f.Value.Column)
		}
	}
	e.Spec.Name, e.Spec.Type, e.Provider = r.needed(n, key, "name"), r.needed(n, key, "type"), r.needed(n, key, "provider")
	e.Spec.Size = r.text(n.Get("size"), key)
	if f := n.Get("config"); f != nil {
		if f.Value.Kind != yamltree.Map {
			r.bad(f.Line, f.Column, key+".config", "wants a mapping, has %s", f.Value.Kind)
			e.odd["config"] = true
		} else {
			e.config, e.Spec.Config = f.Value, f.Value.JSON()
		}
	}
	if f := n.Get("hints"); f != nil {
		if f.Value.Kind != yamltree.Map {
			r.bad(f.Line, f.Column, key+".hints", "wants a mapping, has %s", f.Value.Kind)
		} else {
			h := r.known(f.Value, key+".hints", []string{"cpu", "memory", "storage"})
			e.Spec.Hints = sdk.ResourceHints{CPU: r.text(h.Get("cpu"), key+".hints"), Memory: r.text(h.Get("memory"), key+".hints"), Storage: r.text(h.Get("storage"), key+".hints")}
		}
	}
	r.depends(&e, n.Get("depends_on"), key)
	for _, other := range r.file.Entries {
		if other.Spec.Name == e.Spec.Name && e.Spec.Name != "" {
			at := e.places["name"]
			r.bad(at.Line, at.Column, key+".name", "the resource on line %d is called %q too", other.places[""].Line, e.Spec.Name)
		}
	}
	r.file.Entries = append(r.file.Entries, e)
}

func (r *reader) depends(e *Entry, f *yamltree.Field, key string) {
	if f == nil {
		return
	}
	key += ".depends_on"
	if f.Value.Kind != yamltree.List {
		r.bad(f.Line, f.Column, key, "wants a list of names, has %s", f.Value.Kind)
		return
	}
	var before []string
	for _, o := range r.file.Entries {
		before = append(before, o.Spec.Name)
	}
	for i, item := range f.Value.Items {
		k := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case item.Kind != yamltree.Text:
			r.bad(item.Line, item.Column, k, "wants a name, has %s%s", item.Kind, quoted(item))
		case item.Text == e.Spec.Name:
			r.bad(item.Line, item.Column, k, "a resource can't depend on itself")
		case !slices.Contains(before, item.Text) && slices.Contains(r.names, item.Text):
			r.bad(item.Line, item.Column, k, "%q stands below this one, and the file's order is the order of making: move it up", item.Text)
		case !slices.Contains(before, item.Text):
			r.bad(item.Line, item.Column, k, "no resource before this one is called %q%s", item.Text, meant(item.Text, before))
		default:
			e.Spec.DependsOn = append(e.Spec.DependsOn, item.Text)
		}
	}
}

// needed reads a text that must be there.
func (r *reader) needed(n *yamltree.Node, key, name string) string {
	f := n.Get(name)
	if f == nil {
		r.bad(n.Line, n.Column, key, "has no %s", name)
		return ""
	}
	return r.text(f, key)
}

// text reads a text that isn't empty; nothing where there is none.
func (r *reader) text(f *yamltree.Field, key string) string {
	switch {
	case f == nil:
		return ""
	case f.Value.Kind != yamltree.Text:
		r.bad(f.Line, f.Column, join(key, f.Key), "wants text, has %s%s", f.Value.Kind, quoted(f.Value))
		return ""
	case f.Value.Text == "":
		r.bad(f.Value.Line, f.Value.Column, join(key, f.Key), "is empty")
	}
	return f.Value.Text
}

// quoted says how a scalar that isn't text becomes one.
func quoted(n *yamltree.Node) string {
	switch n.Kind {
	case yamltree.Int, yamltree.Float, yamltree.Bool:
		return "; put it in quotes"
	}
	return ""
}
