package do

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// doctlToken returns the token that `doctl auth init` has stored, of the context
// that doctl would use.
// https://docs.digitalocean.com/reference/doctl/how-to/install/
func doctlToken(v map[string]string) (string, error) {
	var tried []string
	for _, file := range doctlFiles(v) {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			tried = append(tried, file)
			continue
		}
		if err != nil {
			return "", err
		}
		return parseDoctl(data, v["DIGITALOCEAN_CONTEXT"], file)
	}
	if len(tried) == 0 {
		return "", errors.New("no token is set, and no home folder is known in which doctl's would be")
	}
	return "", fmt.Errorf("no token is set, and doctl has none in %s", tried[0])
}

// doctlFiles are the places of doctl's settings, by system.
func doctlFiles(v map[string]string) []string {
	const name = "config.yaml"
	var out []string
	if v["XDG_CONFIG_HOME"] != "" {
		out = append(out, filepath.Join(v["XDG_CONFIG_HOME"], "doctl", name))
	}
	if v["APPDATA"] != "" {
		out = append(out, filepath.Join(v["APPDATA"], "doctl", name))
	}
	if v["HOME"] != "" {
		out = append(out, filepath.Join(v["HOME"], ".config", "doctl", name), filepath.Join(v["HOME"], "Library", "Application Support", "doctl", name))
	}
	return out
}

// parseDoctl reads doctl's settings. Errors of the decoder may quote what the
// file holds, so they aren't told.
func parseDoctl(data []byte, use, file string) (string, error) {
	var c struct {
		Token    string            `yaml:"access-token"`
		Context  string            `yaml:"context"`
		Contexts map[string]string `yaml:"auth-contexts"`
	}
	if yaml.Unmarshal(data, &c) != nil {
		return "", fmt.Errorf("%s is not doctl's YAML", file)
	}
	use = cmp.Or(use, c.Context)
	token := c.Token
	if use != "" && use != "default" {
		token = c.Contexts[use]
	}
	if token == "" {
		return "", fmt.Errorf("%s has no token for doctl's context %q", file, cmp.Or(use, "default"))
	}
	return token, nil
}
