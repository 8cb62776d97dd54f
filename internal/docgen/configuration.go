package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/credential"
)

// configuration writes docs/configuration.md from the table of settings.
func configuration() ([]byte, error) {
	head := []string{"Setting", "Flag", "Variable", "In the file", "Default", "Meaning"}
	var general, provider [][]string
	for _, s := range config.Settings() {
		flag := ""
		if s.Flag != "" {
			flag = "--" + s.Flag
		}
		def := code(s.Default)
		if s.Default == "" {
			def = s.DefaultDoc
		}
		row := []string{code(s.Name), code(flag), code(s.Env), code(s.YAML), def, meaning(s)}
		if rest, ok := strings.CutPrefix(s.Name, "providers.NAME."); ok {
			provider = append(provider, []string{code(rest), def, meaning(s)})
			continue
		}
		general = append(general, row)
	}
	var other [][]string
	for _, v := range config.OtherVars() {
		other = append(other, []string{code(v[0]), v[1]})
	}
	var creds [][]string
	for _, r := range credential.Table() {
		var sets []string
		for _, s := range r.Sets {
			text := codes(s.Names)
			if len(s.Optional) > 0 {
				text += " (and " + codes(s.Optional) + ")"
			}
			sets = append(sets, text)
		}
		if r.File != "" {
			sets = append(sets, "none, with "+code(r.File)+" in its config")
		}
		for _, member := range slices.Sorted(maps.Keys(r.Hosted)) {
			sets = append(sets, "those of "+code(r.Hosted[member])+", with "+code(member)+" in its config")
		}
		need := strings.Join(sets, "; or ")
		if need == "" {
			need = "none"
		}
		creds = append(creds, []string{code(r.Kind), need, codes(r.Also), codes(r.Ambient), yesNo(r.Pocket != nil)})
	}
	return render("configuration.md", map[string]string{
		"Settings":    table(head, general),
		"Provider":    table([]string{"Key", "Default", "Meaning"}, provider),
		"Other":       table([]string{"Variable", "What it is"}, other),
		"Credentials": table([]string{"Kind", "One of these sets", "Besides", "With `ambient` also", "Pocket"}, creds),
	})
}

// meaning is a setting's sentence with its bounds.
func meaning(s config.Setting) string {
	out := s.Doc
	if len(s.Enum) > 0 {
		out += " One of " + codes(s.Enum) + "."
	}
	if s.Max > 0 {
		lo, hi := fmt.Sprint(s.Min), fmt.Sprint(s.Max)
		switch s.Type {
		case config.TypeDuration:
			lo, hi = config.FormatDuration(time.Duration(s.Min)), config.FormatDuration(time.Duration(s.Max))
		case config.TypeSize:
			lo, hi = bytesText(s.Min), bytesText(s.Max)
		}
		out += fmt.Sprintf(" From %s to %s.", lo, hi)
	}
	return out
}
